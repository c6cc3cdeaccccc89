"""Models, vocabularies and checkpoints that do not fit: one line each."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from tests.support.tiny import CONFIG, VOCAB, edit_config, write_vocab


def test_bad_vocabularies(work, expect_refused):
    path = work.model / "vocab.txt"
    write_vocab(work, [*VOCAB, "one", "two"])
    expect_refused(
        work, f"{path}: 27 tokens, but vocab_size is 25", "pass the --vocab_file"
    )
    write_vocab(work, [token for token in VOCAB if token != "[CLS]"])
    expect_refused(work, f"{path}: none of its 24 lines is [CLS]")
    path.write_bytes(b"[PAD]\n\xff\n")
    expect_refused(work, f"{path}:2: b'\\xff' is not UTF-8")
    path.write_text("")
    expect_refused(work, f"{path}: empty")
    path.unlink()
    path.mkdir()
    expect_refused(work, f"{path}: is a directory: pass a file")


def test_an_embedding_may_have_128_unused_rows(work, expect_refused, inside):
    tensors = google_read.read(work.model / "bert_model.ckpt")
    words = "bert/embeddings/word_embeddings"
    for unused in (128, 129):
        rows = np.zeros((len(VOCAB) + unused, 32), np.float32)
        google_read.write(work.model / "bert_model.ckpt", {**tensors, words: rows})
        edit_config(work, vocab_size=len(rows))
        if unused == 129:
            expect_refused(
                work, f"vocab.txt: {len(VOCAB)} tokens, but vocab_size is 154"
            )
            continue
        code, _, err = inside(work.flags(work.root / "new", do_train=True))
        assert code == 0, err
        assert "128 tokens fewer than the embedding has rows" in err


BAD_CONFIGS = [
    ({"vocab_size": None}, "no vocab_size"),
    ({"hidden_size": "32"}, "hidden_size is '32', not a value of type int"),
    ({"num_hidden_layers": 2.5}, "num_hidden_layers is 2.5"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0, not positive"),
    ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0, not in [0, 1)"),
    ({"num_attention_heads": 5}, "32 is not a multiple of num_attention_heads 5"),
    ({"hidden_act": "swish"}, "hidden_act 'swish' is not known: pass --hidden_act"),
    ({"intermediate_size": 10**400}, "intermediate_size is more than 100,000,000"),
]


@pytest.mark.parametrize(("changed", "fragment"), BAD_CONFIGS, ids=str)
def test_bad_configurations(work, expect_refused, changed, fragment):
    edit_config(work, **changed)
    expect_refused(work, f"{work.model / 'bert_config.json'}: ", fragment)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("{", "not a JSON file"),
        ("[" * 100_000, "not a JSON file: maximum recursion depth"),
        ("[1]", "not a JSON object"),
    ],
    ids=["cut", "deep", "list"],
)
def test_configurations_that_are_no_json_object(work, expect_refused, text, fragment):
    (work.model / "bert_config.json").write_text(text)
    expect_refused(work, f"{work.model / 'bert_config.json'}: {fragment}")


MISMATCHES = [
    (
        {"num_hidden_layers": 2},
        "lacks 16 of",
        "such as bert/encoder/layer_1/",
        "--bert",
    ),
    ({"intermediate_size": 64}, "has shape", "model expects", "--bert_config_file"),
    ({"vocab_size": 30}, "word_embeddings has shape [25, 32]", "[30, 32]"),
]


@pytest.mark.parametrize(
    ("changed", "fragments"), [(c, m) for c, *m in MISMATCHES], ids=str
)
def test_config_of_another_checkpoint(work, expect_refused, changed, fragments):
    edit_config(work, **changed)
    expect_refused(work, f"{work.model / 'bert_model.ckpt'}: ", *fragments)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize("damage", [flip, cut, pathlib.Path.unlink])
@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_damaged_checkpoints(work, expect_refused, suffix, damage):
    damage(work.model / f"bert_model.ckpt{suffix}")
    expect_refused(work, "bert_model.ckpt.")


@pytest.mark.parametrize("suffix", ["bin", "h5", "keras", "pkl", "pickle", "pt", "pth"])
def test_files_that_can_run_code_are_never_read(work, expect_refused, suffix):
    path = work.root / f"model.{suffix}"
    path.write_bytes(b"\x80\x04.")
    message = f"{path}: files of this kind can run code and are never read"
    expect_refused(work, message, "convert it", init_checkpoint=path)
    folder = work.root / "folder"
    folder.mkdir()
    path.rename(folder / f"model.{suffix}")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    expect_refused(work, "can run code", init_checkpoint=folder)


@pytest.mark.parametrize(
    ("name", "flags", "right"),
    [
        ("cased_L-12_H-768_A-12", {}, "false"),  # Google's rule: no default
        ("wwm_cased_L-24_H-1024_A-16", {}, "false"),
        ("multi_cased_L-12_H-768_A-12", {"do_lower_case": True}, "false"),
        ("uncased_L-12_H-768_A-12", {"do_lower_case": False}, "true"),
        ("chinese_L-12_H-768_A-12", {"do_lower_case": False}, "true"),
        ("my_cased_model", {}, None),
        ("cased_L-12_H-768_A-12/tuned", {}, None),  # not the folder itself
    ],
)
def test_casing_by_googles_names(work, expect_refused, inside, name, flags, right):
    start = work.root / name / "bert_model.ckpt"
    shutil.copytree(work.model, start.parent)
    flags = {**flags, "init_checkpoint": start, "do_train": True}
    if right:
        expect_refused(work, f"{start} is ", f"pass --do_lower_case={right}", **flags)
    else:
        assert inside(work.flags(work.root / "new", **flags))[0] == 0


def test_casing_of_a_hugging_face_folder(work, expect_refused, inside):
    (work.root / "hf").mkdir()
    flags = {"do_train": True, "export_hf": work.root / "hf"}
    assert inside(work.flags(work.root / "new", **flags))[0] == 0
    settings = work.root / "hf" / "tokenizer_config.json"
    settings.write_text('{"do_lower_case": false}')
    message = f"--do_lower_case=true, but {work.root / 'hf'} is cased: pass"
    for start in (work.root / "hf", work.root / "hf" / "model.safetensors"):
        expect_refused(work, message, init_checkpoint=start, do_lower_case=True)


def test_casing_of_a_trained_run(resumed, expect_refused):
    path = resumed.root / "out" / "run.json"
    expect_refused(resumed, f"but {path.parent} is uncased: pass", do_lower_case=False)
    path.write_text("{")
    expect_refused(resumed, f"{path}: damaged", "pass --do_lower_case")


def test_weights_that_are_no_numbers(work, expect_refused):
    start = work.model / "bert_model.ckpt"
    tensors = google_read.read(start)
    name = "bert/encoder/layer_0/output/dense/bias"
    tensors[name][3] = np.nan
    google_read.write(start, tensors)
    expect_refused(work, f"{start}: {name} holds NaN or infinite values")


def test_a_head_for_other_labels_is_not_taken(work, trained, inside):
    """As many classes, with other names: the encoder alone is taken."""
    flags = {"do_train": True, "learning_rate": 0, "init_checkpoint": trained()}
    other, same = work.root / "other", work.root / "same"
    code, _, err = inside(work.flags(other, "own", **flags))
    assert code == 0, err
    assert "has other labels: 0, 1" in err
    assert "new, initialised at random: output_bias, output_weights" in err
    code, _, err = inside(work.flags(same, **flags))
    assert code == 0 and "other labels" not in err, err
    head, start = "output_weights", google_read.read(trained())
    assert np.array_equal(google_read.read(same)[head], start[head])
    assert not np.array_equal(google_read.read(other)[head], start[head])
    kernel = "bert/pooler/dense/kernel"
    assert np.array_equal(google_read.read(other)[kernel], start[kernel])


def test_models_without_a_trained_head(work, expect_refused):
    predict = {"do_train": None, "do_predict": True}
    start = work.model / "bert_model.ckpt"
    expect_refused(
        work, f"{start}: output_weights is not trained for this task", **predict
    )
    nothing = {"init_checkpoint": None, "vocab_file": None, "bert_config_file": None}
    message = f"--output_dir={work.root / 'out'}: holds no trained model: pass"
    expect_refused(work, message, **predict, **nothing)
    expect_refused(work, "--bert_config_file is missing: pass it", **nothing)


IDENTITY = [
    ({"max_seq_length": 20}, "max_seq_length (was 16, is 20)"),
    ({"truncation": "tail"}, "truncation (was head, is tail)"),
    (
        {"truncation": "head_tail", "head_tokens": 9},
        "truncation (was head, is head_tail), --head_tokens (was 128, is 9)",
    ),
    ({"classifier_dropout": 0.5}, "classifier_dropout (was not given, is 0.5)"),
    ({"warmup_proportion": 0.5}, "warmup_proportion (was 0.1, is 0.5)"),
    ({"max_train_examples": 20}, "max_train_examples (was not given, is 20)"),
    ({"seed": 7}, "seed (was 42, is 7)"),
    (
        {"train_batch_size": 2},
        "train_batch_size x --n_gpus x --gradient_accumulation_steps x processes"
        " (was 4, is 2)",
    ),
    (
        {"n_gpus": 2},
        "train_batch_size x --n_gpus x --gradient_accumulation_steps x processes"
        " (was 4, is 8)",
    ),
    ({"learning_rate": 2e-3}, "learning_rate x --lr_scaling (was 0.001, is 0.002)"),
]


@pytest.mark.parametrize(("changed", "named"), IDENTITY, ids=str)
def test_a_resume_names_each_changed_setting(resumed, expect_refused, changed, named):
    message = f"{resumed.root / 'out'} holds a run with other settings: --{named}: pass"
    expect_refused(resumed, message, num_train_epochs=2, **changed)


def test_a_resume_names_several_changed_settings(resumed, expect_refused):
    changed = {"task_name": "cola", "data_dir": resumed.data("cola"), "seed": 7}
    edit_config(resumed, hidden_dropout_prob=0.2)
    write_vocab(resumed, [*VOCAB[:-2], "?", "!"])
    named = ("task_name (was mrpc, is cola)", "seed", "vocab_file", "data_dir")
    expect_refused(resumed, "other settings", *named, **changed)
    expect_refused(resumed, "other settings", "bert_config_file", "hidden_dropout_prob")


def test_labels_of_another_task(resumed, expect_refused):
    (resumed.root / "out" / "label_list.txt").write_text("no\nyes\n")
    message = "the task mrpc has the labels 0, 1, the trained model no, yes: pass"
    expect_refused(resumed, message)
    expect_refused(resumed, message, do_train=None, do_predict=True)
