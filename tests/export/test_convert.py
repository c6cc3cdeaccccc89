"""Models to Google's format and to Hugging Face's, and back, by the command."""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_mgpu.checkpoints import google_read, google_write, huggingface_read
from bert_mgpu.cli import convert, main
from bert_mgpu.export import convert as convert_lib
from bert_mgpu.model import bert, heads, params
from bert_mgpu.model.config import BertConfig
from tests.reference import cases, google_graph
from tests.support.tensors import GOLDEN, assert_bit_equal, random_tensors, save
from tests.support.tiny import CONFIG, VOCAB

HEADS = {
    "cls/predictions/transform/dense/kernel": (32, 32),
    "cls/predictions/transform/dense/bias": (32,),
    "cls/predictions/transform/LayerNorm/gamma": (32,),
    "cls/predictions/transform/LayerNorm/beta": (32,),
    "cls/predictions/output_bias": (len(VOCAB),),
}
NEXT = {
    "cls/seq_relationship/output_weights": (2, 32),
    "cls/seq_relationship/output_bias": (2,),
}
LABELS = {"output_weights": (3, 32), "output_bias": (3,)}
SPANS = {"cls/squad/output_weights": (2, 32), "cls/squad/output_bias": (2,)}
KINDS = {
    "BertModel": {},
    "BertForMaskedLM": HEADS,
    "BertForPreTraining": HEADS | NEXT,
    "BertForSequenceClassification": LABELS,
    "BertForQuestionAnswering": SPANS,
}

BERT = {"model_type": "bert"}
TWO_LAYERS = {**CONFIG, "num_hidden_layers": 2}


@pytest.fixture
def google(two_layers, tmp_path):
    """google(head) -> a folder as Google publishes one, and its weights."""

    def make(head, pooler=True):
        folder = tmp_path / "google"
        folder.mkdir()
        shutil.copy(two_layers.model / "vocab.txt", folder)
        shutil.copy(two_layers.model / "bert_config.json", folder)
        specs = params.bert_specs(BertConfig.from_dict(TWO_LAYERS, "tests"))
        shapes = {name: shape for name, (shape, _) in specs.items()} | head
        if not pooler:
            shapes = {n: s for n, s in shapes.items() if "pooler" not in n}
        weights = {n: 0.3 * v for n, v in random_tensors(shapes).items()}
        google_read.write(folder / "bert_model.ckpt", {**weights, "global_step": 7})
        return folder, weights

    return make


@pytest.fixture
def call(capfd):
    """call(**flags) -> (exit code, stdout, stderr)."""

    def run(**flags):
        capfd.readouterr()
        code = convert.main([f"--{k}={v}" for k, v in flags.items()])
        return code, *capfd.readouterr()

    return run


def assert_done(result):
    code, out, err = result
    assert code == 0 and err == "", err
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cased", [False, True], ids=["uncased", "cased"])
def test_there_and_back_nothing_is_lost(google, call, tmp_path, kind, cased):
    folder, weights = google(KINDS[kind])
    if kind == "BertForSequenceClassification":
        (folder / "label_list.txt").write_text("no\nyes\n也许\n")
    hub, back = tmp_path / "hf", tmp_path / "back"
    flags = {"do_lower_case": "false"} if cased else {}
    text = tmp_path / "texts.txt"
    text.write_text("Sun 好 win.\n\nrain loss\n")
    flags["input_file"] = text
    out = assert_done(call(init_checkpoint=folder, export_hf=hub, **flags))
    assert f"compared on the first 2 lines of {text}" in out
    assert "largest difference: hidden states 0.0e+00" in out
    config = json.loads((hub / "config.json").read_text())
    assert config["architectures"] == [kind]
    settings = huggingface_read.folder_settings(hub)
    assert settings["do_lower_case"] is not cased
    flags.pop("do_lower_case", None)  # now the folder says it
    out = assert_done(call(init_checkpoint=hub, export_google=back, **flags))
    actual = google_read.read(back)
    # transformers has no pooler in a model that reads every token.
    unpooled = kind in ("BertForMaskedLM", "BertForQuestionAnswering")
    kept = {n: v for n, v in weights.items() if not (unpooled and "pooler" in n)}
    assert_bit_equal(actual, kept)
    assert BertConfig.from_json_file(back / "bert_config.json") == (
        BertConfig.from_json_file(folder / "bert_config.json")
    )
    assert (back / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()
    facts = json.loads((back / "run.json").read_text())
    assert facts["flags"]["do_lower_case"] is not cased
    labels = back / "label_list.txt"
    assert labels.exists() == (kind == "BertForSequenceClassification")
    assert not labels.exists() or labels.read_text() == "no\nyes\n也许\n"


@pytest.mark.parametrize(
    "kind", ["BertModel", "BertForSequenceClassification", "BertForQuestionAnswering"]
)
def test_the_file_is_the_one_that_transformers_writes(call, tmp_path, kind):
    """Names and shapes from transformers itself (tests/reference/make_golden.py)."""
    tensors = random_tensors(GOLDEN[kind])
    source = tmp_path / "source"
    source.mkdir()
    save(source, tensors)
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(94))]
    (source / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    (source / "config.json").write_text(
        json.dumps({**vars(cases.MODEL), "hidden_act": "gelu", **BERT})
    )
    middle, again = tmp_path / "google", tmp_path / "again"
    out = assert_done(call(init_checkpoint=source, export_google=middle))
    assert "google-research/bert has no erf form of gelu" in out
    assert_done(call(init_checkpoint=middle, export_hf=again))
    actual = safetensors.numpy.load_file(again / "model.safetensors")
    assert_bit_equal(actual, tensors)


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("bert", "tf_keras")),
    reason="Google's code is in bert-tensorflow, it needs tf-keras",
)
def test_googles_graph_says_what_the_hugging_face_model_says(call, tmp_path):
    """The converted folder, as it stands, in google-research/bert's own code."""
    tensors = random_tensors(GOLDEN["BertForSequenceClassification"])
    tensors = {name: 0.1 * value for name, value in tensors.items()}
    source, target = save(tmp_path, tensors), tmp_path / "google"
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(94))]
    (source / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    (source / "config.json").write_text(
        json.dumps({**vars(cases.MODEL), "hidden_act": "gelu_new", **BERT})
    )
    assert_done(call(init_checkpoint=source, export_google=target))
    inputs = cases.make_inputs(19)
    config = BertConfig.from_json_file(target / "bert_config.json")
    stored = google_read.read(target)
    theirs, _ = google_graph.run(config, stored, {"19": inputs})
    weights = huggingface_read.read(source)
    batch = {name: tf.constant(value) for name, value in inputs.items()}
    hidden = bert.encode(weights, cases.MODEL, batch)[-1]
    logits = heads.classification_logits(weights, bert.pool(weights, hidden[:, 0]), 0.0)
    difference = np.abs(logits.numpy() - theirs["19"]["logits"]).max()
    assert difference <= cases.TOLERANCE


def test_a_run_of_ours_is_converted_without_its_training(tiny, inside, call, tmp_path):
    """Averaged weights, labels, casing and lengths; no slots."""
    out = tmp_path / "out"
    flags = {"do_train": True, "ema_decay": 0.5, "max_seq_length": 24}
    assert inside(tiny.flags(out, "own", **flags))[0] == 0
    hf, google = tmp_path / "hf", tmp_path / "google"
    output = assert_done(call(init_checkpoint=out, export_hf=hf, export_google=google))
    assert "labels 0.0e+00" in output and output.count("wrote 25 weights") == 2
    trained = google_read.read(out)
    stored = google_read.read(google)
    average = "output_weights/ExponentialMovingAverage"
    assert np.array_equal(stored["output_weights"], trained[average])
    assert not any("adam" in name or "Average" in name for name in stored)
    assert huggingface_read.folder_settings(hf)["labels"] == ["no", "yes"]
    config = json.loads((hf / "config.json").read_text())
    assert config["problem_type"] == "single_label_classification"
    # Each predicts as the run does, asked for nothing but the rows.
    actual = {}
    for name, start in (("run", out), ("hf", hf), ("google", google)):
        folder = tmp_path / f"predict-{name}"
        flags = {"do_predict": True, "init_checkpoint": start, "vocab_file": None}
        flags |= {"bert_config_file": None, "max_seq_length": 24}
        code, _, err = inside(tiny.flags(folder, "own", **flags))
        assert code == 0, err
        actual[name] = (folder / "test_results.tsv").read_text()
    assert actual["run"] == actual["hf"] == actual["google"]


def test_a_checkpoint_of_bfloat16_is_converted(google, call, tmp_path):
    folder, weights = google(LABELS)
    halves = {name: tf.cast(value, tf.bfloat16) for name, value in weights.items()}
    google_read.write(folder / "bert_model.ckpt", halves)
    assert_done(call(init_checkpoint=folder, export_hf=tmp_path / "hf"))
    actual = huggingface_read.read(tmp_path / "hf")
    assert_bit_equal(
        actual, {n: tf.cast(v, "float32").numpy() for n, v in halves.items()}
    )


def test_what_has_no_place_is_said(google, call, tmp_path):
    folder, _ = google(HEADS | NEXT | LABELS)
    out = assert_done(call(init_checkpoint=folder, export_hf=tmp_path / "hf"))
    assert "without 7 that it has no place for: cls/predictions/output_bias" in out
    shutil.rmtree(folder)
    folder, _ = google({"own/thing": (2,)}, pooler=False)
    out = assert_done(call(init_checkpoint=folder, export_hf=tmp_path / "hf"))
    assert "left out, as they are not BERT's: own/thing" in out
    assert "the model has no pooler" in out and "wrote 37 weights" in out


def test_a_ranker_by_words_stays_one(google, call, tmp_path):
    """transformers has none."""
    own = {"cls/slot/word_bias": (len(VOCAB),), "cls/slot/output_bias": ()}
    folder, weights = google(HEADS | own)
    assert_done(call(init_checkpoint=folder, export_google=tmp_path / "back"))
    actual = google_read.read(tmp_path / "back")
    for name in own:
        assert np.array_equal(actual[name], weights[name]), name
    code, _, err = call(init_checkpoint=folder, export_hf=tmp_path / "hf")
    assert code == 2 and "transformers has no ranking by words" in err
    assert "train with --ad_slot=unk or mask" in err


def test_what_tags_and_writes_words_is_refused(google, call, tmp_path):
    folder, _ = google(HEADS | LABELS, pooler=False)
    code, _, err = call(init_checkpoint=folder, export_hf=tmp_path / "hf")
    assert code == 2 and "no model with both tags and masked words" in err
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value * 1.1, "differs by more than 1e-05"),
        (lambda value: None, "new: lacks bert/encoder/layer_0/output/dense/kernel"),
        (lambda value: value * np.nan, "holds NaN or infinite values"),
    ],
    ids=["another", "absent", "no number"],
)
def test_a_difference_ends_it(google, call, tmp_path, monkeypatch, change, words):
    """As if the writer had a fault."""
    folder, _ = google({})
    write = google_write.export

    def wrong(target, weights, *rest, **named):
        name = "bert/encoder/layer_0/output/dense/kernel"
        changed = {**weights, name: change(weights[name])}
        kept = {n: v for n, v in changed.items() if v is not None}
        write(target, kept, *rest, **named)

    monkeypatch.setattr(google_write, "export", wrong)
    code, out, err = call(init_checkpoint=folder, export_google=tmp_path / "new")
    assert code in (1, 2) and words in err
    assert "hidden states 0.0e+00" not in out


def test_outputs_that_are_no_numbers_end_it(google, call, tmp_path):
    """Of finite weights that are so large that scores of attention overflow."""
    folder, weights = google({})
    scope = "bert/encoder/layer_0/attention/self"
    large = {f"{scope}/{name}/kernel": np.float32(1e25) for name in ("query", "key")}
    weights |= {name: weights[name] * factor for name, factor in large.items()}
    google_read.write(folder / "bert_model.ckpt", weights)
    code, _, err = call(init_checkpoint=folder, export_google=tmp_path / "new")
    assert code == 1 and "new: differs by more than 1e-05" in err


MISTAKES = [
    ({}, "--init_checkpoint is missing"),
    ({"init_checkpoint": "MODEL"}, "nothing to do: pass --export_hf or --export_"),
    ({"init_checkpoint": "/no", "export_hf": "NEW"}, "/no: no such file"),
    (
        {"init_checkpoint": "MODEL", "export_hf": "MODEL"},
        "whose files it would replace",
    ),
    ({"init_checkpoint": "MODEL", "export_google": "MODEL"}, "also --init_checkpoint"),
    ({"init_checkpoint": "MODEL", "export_google": "a[1]"}, "TensorFlow takes [ ] and"),
    ({"init_checkpoint": "MODEL", "export_onx": "NEW"}, "--export_onx: there is no"),
    (
        {"init_checkpoint": "MODEL", "export_hf": "NEW", "export_google": "NEW"},
        "new: is also --export_hf: pass another folder",
    ),
    (
        {"init_checkpoint": "MODEL", "export_hf": "NEW", "input_file": "/no"},
        "/no: no such file",
    ),
    (
        {"init_checkpoint": "MODEL", "export_hf": "NEW", "input_file": "EMPTY"},
        "no text to compare the models on",
    ),
    (
        {"init_checkpoint": "MODEL", "export_hf": "NEW", "bert_config_file": "OTHER"},
        "has shape [64, 32], the model expects [48, 32]",
    ),
    ({"init_checkpoint": "PICKLE", "export_google": "NEW"}, "can run code and are"),
]


@pytest.mark.parametrize(("flags", "fragment"), MISTAKES, ids=str)
def test_mistakes_write_nothing(google, call, tmp_path, flags, fragment):
    model, _ = google({})
    other = json.dumps({**TWO_LAYERS, "max_position_embeddings": 48})
    (tmp_path / "other.json").write_text(other)
    (tmp_path / "empty.txt").write_text("\n\n")
    pickled = tmp_path / "pickled"
    shutil.copytree(model, pickled, ignore=lambda *_: ["bert_model.ckpt.index"])
    (pickled / "bert_config.json").rename(pickled / "config.json")
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    names = {"MODEL": model, "NEW": tmp_path / "new", "EMPTY": tmp_path / "empty.txt"}
    names |= {"OTHER": tmp_path / "other.json", "PICKLE": pickled}
    before = {path: path.read_bytes() for path in model.iterdir()}
    code, _, err = call(**{k: names.get(v, v) for k, v in flags.items()})
    assert code == 2 and fragment in err and len(err.splitlines()) == 1, err
    assert {path: path.read_bytes() for path in model.iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_the_command_by_itself(google, tmp_path):
    """A process, from another folder; what TensorFlow prints is not shown."""
    folder, _ = google({})
    flags = [f"--init_checkpoint={folder}", f"--export_hf={tmp_path / 'hf'}"]
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("bert_mgpu"), "convert", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "  largest difference: hidden states 0.0e+00"
    assert convert_lib.TARGETS.keys() == {"export_hf", "export_google"}


@pytest.mark.parametrize(
    ("typed", "code", "fragment"),
    [
        (["convert", "--help"], 0, "--export_google=..."),
        ([], 0, "bert_mgpu doctor data FLAGS"),
        (
            ["convrt"],
            2,
            "error: convrt: no such command: did you mean convert?",
        ),
        (["convert"], 2, "error: --init_checkpoint is missing"),
        (["doctor", "data"], 2, "error: --task_name is missing"),
    ],
    ids=str,
)
def test_the_commands_have_one_name(monkeypatch, capfd, typed, code, fragment):
    monkeypatch.setattr(sys, "argv", ["bert_mgpu", *typed])
    assert main.main() == code
    assert fragment in "".join(capfd.readouterr())
