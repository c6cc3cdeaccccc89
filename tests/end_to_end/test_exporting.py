"""A SavedModel says of raw texts what the run says of their rows; ONNX of ids."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.support.marks import rarely
from tests.support.runs import assert_refused, tree
from tests.support.tiny import rows

# Longer and shorter than 16 tokens, of characters that have to be cut apart.
TEXTS = ["", "sun", "雨 loss好, rain.", *(a for _, a, _ in rows(20, 3)), "SUN " * 30]
HEAD_TAIL = {"truncation": "head_tail", "head_tokens": 3, "max_seq_length": 11}
LONG = {"max_segments": 3, "max_seq_length": 8, "doc_stride": 5, "onnx": True}
LONG |= {"segment_pooling": "attention", "truncation": "head_tail", "head_tokens": 3}
LONG |= {"export_tokenizer": "tf_text"}
ALL = {"onnx": True, "threshold": 0.9, "ema_decay": 0.5, "padding": "pack"}
LABEL = {"single": ["yes", "no"], "multi": ["a,b", "b"], "regression": ["1", "-1"]}


def fields(out, name):
    return [json.loads(line)[name] for line in (out / "predictions.jsonl").open()]


class Served(NamedTuple):
    """A run that has exported, for tests to look at only."""

    model: Any  # loaded
    root: pathlib.Path  # of the folders out, served and onnx
    texts: dict[str, list[str]]
    said: str


@pytest.fixture(scope="module")
def exported():
    return {}


@pytest.fixture
def served(tiny, tmp_path_factory, inside, exported):
    """served(kind, pairs, onnx, **flags) -> Served; the same again for the same."""

    def export(kind="single", pairs=False, onnx=False, **flags):
        root = tmp_path_factory.mktemp("served")
        data, out = root / "data", root / "out"
        data.mkdir()
        seconds = [f"the {text}" if n % 3 else "" for n, text in enumerate(TEXTS)]
        for split in ("train", "test"):
            with (data / f"{split}.tsv").open("w") as file:
                for number, (a, b) in enumerate(zip(TEXTS, seconds, strict=True)):
                    file.write(f"{LABEL[kind][number % 2]}\t{b}\t{a}\n")
        task = {"train": "train.tsv", "dev": "train.tsv", "test": "test.tsv"}
        task |= {"label": 0, "text_a": 2, "type": kind}
        task |= {"text_b": 1} if pairs else {}
        (data / "task.json").write_text(json.dumps(task))
        folder = root / "served"
        values = {"do_train": True, "do_predict": True, "data_dir": data}
        values |= {"export_saved_model": folder, "num_train_epochs": 4}
        values |= {"export_onnx": root / "onnx"} if onnx else {}
        values |= flags
        code, _, err = inside(tiny.flags(out, "mine", **values))
        assert code == 0, err
        texts = {"text_a": TEXTS, **({"text_b": seconds} if pairs else {})}
        return Served(tf.saved_model.load(str(folder)), root, texts, err)

    def once(*args, **flags):
        asked = repr((args, sorted(flags.items())))
        if asked not in exported:
            exported[asked] = export(*args, **flags)
        return exported[asked]

    return once


def ask(model, texts):
    given = {name: tf.constant(values) for name, values in texts.items()}
    actual = model.signatures["serving_default"](**given)
    return {name: value.numpy() for name, value in actual.items()}


@pytest.mark.parametrize(
    ("pairs", "flags"),
    [
        (False, ALL),
        (False, LONG),
        (True, HEAD_TAIL),
        *rarely(
            (False, {}),
            (False, {"truncation": "tail"}),
            (False, HEAD_TAIL),
            (True, {"ema_decay": 0.5, "padding": "pack"}),
            (False, {"threshold": 0.9}),
            (False, LONG | {"export_tokenizer": "tf"}),
            (True, HEAD_TAIL | {"export_tokenizer": "tf_text"}),
        ),
    ],
    ids=str,
)
def test_texts_get_the_predictions_of_the_run(served, pairs, flags):
    model, root, texts, output = served("single", pairs, **flags)
    actual, out = ask(model, texts), root / "out"
    wanted = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(actual["probabilities"], wanted, 0, 2e-6)
    assert [label.decode() for label in actual["label"]] == fields(out, "label")
    classes = (out / "predict.txt").read_text().split()
    assert [*map(str, actual["class"])] == classes
    assert "given the texts of 24 examples, its outputs differ by" in output
    # Each text alone, with less to pad to, gets the same.
    for number in (0, 1, 5):
        alone = ask(model, {name: [some[number]] for name, some in texts.items()})
        np.testing.assert_allclose(alone["probabilities"][0], wanted[number], 0, 2e-6)


def test_ids_are_taken_too(served, tiny):
    from bert_mgpu.text.tokenization import Tokenizer

    model, _, texts, _ = served("single", False, **ALL)
    words = Tokenizer(tiny.model / "vocab.txt")
    of_texts = ask(model, texts)
    for number, text in enumerate(TEXTS):
        ids = [words.cls_id, *words.ids(text)[:14], words.sep_id]
        padded = tf.constant([[*ids, 0, 0]])
        mask = tf.constant([[1] * len(ids) + [0, 0]])
        actual = model.signatures["ids"](
            input_ids=padded, input_mask=mask, segment_ids=tf.zeros_like(padded)
        )
        wanted = of_texts["logits"][number]
        np.testing.assert_allclose(actual["logits"][0], wanted, 0, 1e-5)


def test_several_labels_and_a_threshold(served):
    model, root, texts, _ = served("multi", onnx=True, threshold=0.4)
    actual, out = ask(model, texts), root / "out"
    wanted = [",".join(map(str, np.flatnonzero(row))) for row in actual["chosen"]]
    assert (out / "predict.txt").read_text().split("\n")[:-1] == wanted
    shares = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(actual["probabilities"], shares, 0, 2e-6)


@pytest.mark.nightly
def test_a_number(served):
    model, root, texts, _ = served("regression")
    wanted = np.loadtxt(root / "out" / "predict.txt")
    np.testing.assert_allclose(ask(model, texts)["value"], wanted, 0, 1e-5)


@pytest.mark.parametrize(
    ("flags", "needed"),
    [(ALL, ""), *rarely((LONG, ", tensorflow_text"))],
    ids=["tf", "tf_text"],
)
def test_it_needs_nothing_of_bert_mgpu(served, tmp_path, flags, needed):
    """In a process of its own, from another place."""
    folder = served("single", False, **flags).root / "served"
    shutil.move(folder, tmp_path / "moved")
    code = (
        f"import sys, tensorflow as tf{needed}; m = tf.saved_model.load(sys.argv[1]);"
        "f = m.signatures['serving_default'](text_a=tf.constant(['sun', 'rain']));"
        "assert f['label'].shape == (2,); assert 'bert_mgpu' not in sys.modules;"
        f"assert ('tensorflow_text' in sys.modules) == bool({needed!r})"
    )
    command = [sys.executable, "-c", code, tmp_path / "moved"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    shutil.move(tmp_path / "moved", folder)
    assert done.returncode == 0, done.stderr
    facts = json.loads((folder / "bert_mgpu.json").read_text())
    assert facts["labels"] == ["no", "yes"]
    assert facts["max_seq_length"] == flags.get("max_seq_length", 16)


def test_only_an_earlier_export_is_replaced(tiny, tmp_path, inside):
    out, folder = tmp_path / "out", tmp_path / "served"
    flags = {"do_train": True, "export_saved_model": folder}
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    result = inside(tiny.flags(out, "own", **flags))
    assert_refused(result, f"{folder}: exists and is not just an export")
    (folder / "notes.txt").unlink()
    assert inside(tiny.flags(out, "own", **flags))[0] == 0
    before = tree(folder)
    code, _, err = inside(tiny.flags(out, "own", export_saved_model=folder))
    assert code == 0 and "to compare the export with the run, add" in err
    assert tree(folder).keys() == before.keys()
    (folder / "notes.txt").write_text("mine")
    result = inside(tiny.flags(out, "own", **flags))
    assert_refused(result, "is not just an export")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "served"}


def ask_onnx(folder, texts, vocab):
    """What onnxruntime says of rows made by hand of the folder's vocabulary."""
    from bert_mgpu.text.tokenization import Tokenizer

    words = Tokenizer(vocab)
    rows = []
    for text in texts["text_a"]:
        rows.append([words.cls_id, *words.ids(text)[:14], words.sep_id])
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int32)
    mask = np.array([[1] * len(r) + [0] * (width - len(r)) for r in rows], np.int32)
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    given = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    names = [one.name for one in session.get_outputs()]
    shapes = {one.name: one.shape for one in session.get_inputs()}
    assert shapes == dict.fromkeys(given, ["rows", "tokens"])
    return dict(zip(names, session.run(names, given), strict=True))


@pytest.mark.parametrize("act", [None, *rarely("gelu_erf", "relu")])
def test_onnx_says_what_the_run_says(served, act):
    flags = {"hidden_act": act} if act else {}
    _, root, texts, output = served("single", False, **ALL, **flags)
    folder, out = root / "onnx", root / "out"
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.onnx", "vocab.txt", "bert_mgpu.json"}
    actual = ask_onnx(folder, texts, folder / "vocab.txt")
    wanted = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(actual["probabilities"], wanted, 0, 2e-6)
    assert [*map(str, actual["class"])] == (out / "predict.txt").read_text().split()
    assert [*actual["label"]] == fields(out, "label")
    far = re.search(
        r"given the ids of 24 examples, its outputs differ by (\S+)", output
    )[1]
    assert float(far) <= 1e-5
    facts = json.loads((folder / "bert_mgpu.json").read_text())
    assert facts["labels"] == ["no", "yes"] and facts["do_lower_case"] is True
    assert (facts["truncation"], facts["head_tokens"]) == ("head", 128)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [("multi", {"threshold": 0.4}), *rarely(("regression", {}))],
    ids=["multi", "regression"],
)
def test_onnx_of_other_types(served, kind, flags):
    _, root, texts, _ = served(kind, onnx=True, **flags)
    actual = ask_onnx(root / "onnx", texts, root / "onnx" / "vocab.txt")
    name = {"multi": "probabilities", "regression": "value"}[kind]
    wanted = np.loadtxt(root / "out" / "test_results.tsv")
    np.testing.assert_allclose(actual[name], wanted, 0, 1e-5)


def test_onnx_without_its_packages_is_refused_at_once(
    tiny, tmp_path, inside, monkeypatch
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "tf2onnx" else find(name, package),
    )
    out = tmp_path / "out"
    flags = {"do_train": True, "export_onnx": tmp_path / "onnx"}
    result = inside(tiny.flags(out, "own", **flags))
    assert_refused(result, "--export_onnx needs tf2onnx: ", "[onnx]'")
    assert not (tmp_path / "onnx").exists()
    assert not list(out.glob("model.ckpt*"))
