"""Where sizes, vocabulary, casing and labels of a run's model come from."""

import json
import os
import pathlib

import pytest

from bert_mgpu.checkpoints import pretrained
from bert_mgpu.config.base import ModelFlags
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from tests.support.tiny import CONFIG, VOCAB

OTHER = [*VOCAB[:-1], "sea"]


def leave(folder, tokens=VOCAB, labels=(), flags=None, saved=False, **config):
    """The files of a model, as Google's folders and our runs have them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "bert_config.json").write_text(json.dumps({**CONFIG, **config}))
    if labels:
        (folder / "label_list.txt").write_text("".join(f"{one}\n" for one in labels))
    if flags is not None:
        (folder / "run.json").write_text(json.dumps({"flags": flags}))
    if saved:
        (folder / "model.ckpt-3.index").write_bytes(b"")
    return folder


def settings(**changed):
    given = frozenset(changed) - {"do_train"}
    return FinetuneConfig(**{"max_seq_length": 16, **changed}, given=given)


@pytest.fixture
def find(tmp_path):
    """find(**flags) -> the model of a run whose output_dir is out."""

    def call(data=None, **flags):
        config = settings(**flags)
        return pretrained.find_model(
            config,
            tmp_path / "out",
            data,
            max_seq_length=config.max_seq_length,
            trains=config.do_train,
        )

    return call


def test_all_of_it_is_beside_the_weights(tmp_path, find):
    start = leave(tmp_path / "start", labels=["a", "b"], flags={"do_lower_case": False})
    model = find(init_checkpoint=str(start), do_train=True)
    assert model.tokenizer.tokens == VOCAB and model.bert_config.hidden_size == 32
    assert model.required_vocab_file == str(start / "vocab.txt")
    assert (model.labels, model.do_lower_case) == (["a", "b"], False)


def test_flags_come_first(tmp_path, find):
    start, named = leave(tmp_path / "start"), leave(tmp_path / "named", OTHER)
    (start / "bert_model.ckpt.index").write_bytes(b"")
    flags = {"vocab_file": str(named / "vocab.txt"), "hidden_act": "relu"}
    model = find(init_checkpoint=str(start / "bert_model.ckpt"), **flags)
    assert model.tokenizer.tokens == OTHER and model.bert_config.hidden_act == "relu"
    assert model.config_file == str(start / "bert_config.json")


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_that_has_saved_goes_before_its_start(tmp_path, find, saved):
    """What is left of one that failed before it saved is not of its model."""
    start = leave(tmp_path / "start", labels=["a", "b"])
    leave(tmp_path / "out", OTHER, ["c", "d"], saved=saved)
    model = find(init_checkpoint=str(start), do_train=True)
    assert model.labels == (["c", "d"] if saved else ["a", "b"])
    assert model.tokenizer.tokens == (OTHER if saved else VOCAB)


@pytest.mark.parametrize(
    ("absent", "flags", "words"),
    [
        ("vocab.txt", {}, "--vocab_file is missing: pass it, or an --init_checkpoint"),
        ("bert_config.json", {}, "--bert_config_file is missing: pass it, or an"),
        ("vocab.txt", {"vocab_file": "nowhere/v.txt"}, "nowhere/v.txt: there is no"),
    ],
)
def test_what_is_missing_is_said(tmp_path, find, absent, flags, words):
    start = leave(tmp_path / "start")
    (start / absent).unlink()
    with pytest.raises(UserError, match=words):
        find(init_checkpoint=str(start), **flags)


def test_an_output_dir_without_a_model_is_said(tmp_path, find):
    with pytest.raises(UserError, match="holds no trained model: pass the folder"):
        find(do_predict=True)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none/at/all", "no such checkpoint: pass a folder with a model"),
        ("start/bert_model.ckpt", "bert_model.ckpt: no such file: .* holds "),
        ("pipe", "a pipe or a device: pass a file"),
    ],
)
def test_a_start_that_is_not_there(tmp_path, find, path, words):
    leave(tmp_path / "start")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=words):
        find(init_checkpoint=str(tmp_path / path))


# The name of Google's folder -> is it uncased? None: it does not say.
GOOGLES = {
    "uncased_L-12_H-768_A-12": True,
    "chinese_L-12_H-768_A-12": True,
    "cased_L-24_H-1024_A-16": False,
    "multi_cased_L-12_H-768_A-12": False,
    "wwm_cased_L-24_H-1024_A-16": False,
    "my_cased_model": None,
}


@pytest.mark.parametrize("name", GOOGLES)
@pytest.mark.parametrize("lower", [True, False, None])
def test_casing_of_googles_models(tmp_path, find, name, lower):
    """Their names say it; the default counts as said, as in Google's own code."""
    start, known = leave(tmp_path / name), GOOGLES[name]
    flags = {} if lower is None else {"do_lower_case": lower}
    asked = True if lower is None else lower
    if known is None or known == asked:
        assert find(init_checkpoint=str(start), **flags).do_lower_case == asked
        return
    reported = "uncased" if known else "cased"
    default = " (the default)" if lower is None else ""
    words = (
        rf"--do_lower_case={str(asked).lower()}{default}, but .* is {reported}: pass"
    )
    words = words.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(UserError, match=words):
        find(init_checkpoint=str(start), **flags)


def test_casing_of_a_run_is_taken_unless_a_flag_contradicts_it(tmp_path, find):
    start = str(leave(tmp_path / "start", flags={"do_lower_case": False}))
    assert not find(init_checkpoint=start).do_lower_case
    with pytest.raises(UserError, match="--do_lower_case=true, but .* is cased: pass"):
        find(init_checkpoint=start, do_lower_case=True)


def test_records_say_the_casing_too(tmp_path, find):
    start = str(leave(tmp_path / "start"))
    records = {"do_lower_case": False, "origin": "records.json"}
    assert not find(records, init_checkpoint=start).do_lower_case
    leave(tmp_path / "start", flags={"do_lower_case": True})
    words = "records.json: made with --do_lower_case=false, but .* is uncased: make it"
    with pytest.raises(UserError, match=words):
        find(records, init_checkpoint=start)


@pytest.mark.parametrize("unused", [-1, 0, 128, 129])
def test_a_vocabulary_may_have_128_tokens_fewer_than_the_embedding(
    tmp_path, find, unused
):
    start = leave(tmp_path / "start", vocab_size=len(VOCAB) + unused)
    if 0 <= unused <= 128:
        model = find(init_checkpoint=str(start))
        lines = "\n".join(pretrained.notes(model, None))
        assert (f"{unused} tokens fewer" in lines) == (unused > 0)
        return
    with pytest.raises(UserError, match=f"{len(VOCAB)} tokens, but vocab_size is"):
        find(init_checkpoint=str(start))


@pytest.mark.parametrize(
    ("positions", "most", "why"),
    [(64, 64, "the model has 64 positions"), (1024, 512, "at most 512 tokens, what")],
)
def test_positions_are_the_models_and_at_most_512(tmp_path, find, positions, most, why):
    start = leave(tmp_path / "start", max_position_embeddings=positions)
    assert find(init_checkpoint=str(start), max_seq_length=most)
    said = f"={most + 1}: .*{why}.*: pass at most {most}$"
    with pytest.raises(UserError, match=said):
        find(init_checkpoint=str(start), max_seq_length=most + 1)


def test_a_prediction_is_as_the_model_was_trained(tmp_path):
    """But for what its command line names; a training is as its flags say."""
    flags = {"max_seq_length": 24, "truncation": "tail", "learning_rate": 1.0}
    leave(tmp_path / "out", flags=flags, saved=True)
    out = tmp_path / "out"
    run, notes = pretrained.as_trained(FinetuneConfig(do_predict=True), out)
    assert (run.max_seq_length, run.truncation) == (24, "tail")
    assert run.learning_rate != 1.0 and len(notes) == 2
    assert notes[0] == "--max_seq_length=24, as the model was trained"
    asked = FinetuneConfig(truncation="head", given=frozenset({"truncation"}))
    assert pretrained.as_trained(asked, out)[0].truncation == "head"
    training = FinetuneConfig(do_train=True)
    assert pretrained.as_trained(training, out) == (training, [])


@pytest.mark.parametrize(
    ("names", "is_hub"),
    [
        (["model.safetensors", "config.json"], True),
        (["model-00001-of-00002.safetensors"], True),
        (["config.json"], True),
        (["config.json", "bert_model.ckpt.index"], False),
        (["bert_config.json", "bert_model.ckpt.index"], False),
        (["config.json", "model.ckpt-1000.index", "model.safetensors"], True),
        # With --cache_dir in its folder.
        (["bert_config.json", "model.ckpt-3.index", "own-train-1.safetensors"], False),
        (["bert_config.json", "bert_model.ckpt.index", "x-1.safetensors"], False),
    ],
)
def test_hugging_face_folders_are_known_by_their_files(tmp_path, names, is_hub):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert pretrained.is_hugging_face(str(tmp_path)) == is_hub


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("bert-base-chinese", "hf download google-bert/bert-base-chinese --local-dir"),
        ("bert-large-uncased", "hf download google-bert/bert-large-uncased "),
        (
            "hfl/chinese-roberta-wwm-ext",
            "hf download hfl/chinese-roberta-wwm-ext --local-dir"
            " chinese-roberta-wwm-ext`",
        ),
        ("bert-base-klingon", "no such checkpoint|no such file"),
        ("out/model", "no such checkpoint|there is no directory"),
        ("models/bert_model.ckpt", "no such checkpoint"),
        ("there/bert-bsae", "no such file.*bert-base"),
    ],
)
def test_names_of_a_hub_are_not_downloaded(tmp_path, monkeypatch, name, advice):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("there", "bert-base").mkdir(parents=True)
    with pytest.raises(UserError, match=advice) as raised:
        pretrained.find_model(ModelFlags(init_checkpoint=name))
    assert ("nothing is downloaded" in str(raised.value)) == ("hf download" in advice)
