"""JSON bombs, and what a run left that is damaged: one line, or done without."""

import json
import os
import resource
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy

from bert_mgpu.checkpoints import run_folder
from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.data import cache
from bert_mgpu.evaluation import evaluator
from bert_mgpu.tasks.masked_lm import dataset
from bert_mgpu.training import recorder
from tests.support.damage import KINDS, put
from tests.support.hostile_rows import measured
from tests.support.runs import assert_refused

HALF = r'{"vocab_size": 25, "x": "\ud800"}'
BOMBS = {
    "deep lists": '{"x": ' + "[" * 10**6,
    "deep objects": '{"x": ' * 10**6,
    "a number of many digits": '{"vocab_size": ' + "9" * 10**6 + "}",
    "a key twice": '{"vocab_size": 25, "vocab_size": 26}',
    "a key of megabytes twice": json.dumps({"x" * 10**6: 1})[:-1]
    + ", "
    + json.dumps({"x" * 10**6: 1})[1:],
    "half a character": HALF,
    "half a character as a key": r'{"\uDFFF": 1}',
    "spaces": " " * (files.MOST_JSON + 1),
    "cut": '{"vocab_size": 2',
    "two values": "{} {}",
    "UTF-16": '{"vocab_size": 25}'.encode("utf-16"),
    "binary": bytes(range(256)),
    "zeros": bytes(5000),
    "empty": "",
    "a list": "[]",
    "a text": '"x"',
    "null": "null",
}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_json_bombs(tmp_path, content):
    path = tmp_path / "x.json"
    write(path, content)
    with pytest.raises(UserError) as caught:
        files.read_json(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and len(message) < 600
    assert "\n" not in message


def test_settings_have_a_largest_size(tmp_path):
    write(tmp_path / "x", "{}".ljust(files.MOST_JSON))
    assert files.read_json(tmp_path / "x") == {}
    write(tmp_path / "x", "{}".ljust(files.MOST_JSON + 1))
    with pytest.raises(UserError, match="x: more than 32 MiB, which no such file has"):
        files.read_json(tmp_path / "x")


def test_a_whole_character_in_halves_is_read(tmp_path):
    """As JSON has to write what is beyond U+FFFF."""
    write(tmp_path / "x", r'{"x": "\ud83d\ude00"}')
    assert files.read_json(tmp_path / "x") == {"x": "😀"}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"empty", "binary"}))
def test_settings_that_are_no_file(tmp_path, kind):
    put(tmp_path / "x", kind)
    with pytest.raises(UserError, match="x: cannot read it: "):
        files.read_json(tmp_path / "x")


VALUES = {
    "NaN": ('"initializer_range": NaN', "initializer_range is nan"),
    "Infinity": ('"layer_norm_eps": Infinity', "layer_norm_eps is inf"),
    "beyond doubles": ('"layer_norm_eps": 1e999', "layer_norm_eps is inf"),
    "below 0": ('"layer_norm_eps": -1e-12', "layer_norm_eps is -1e-12, not a"),
    "no share": ('"hidden_dropout_prob": NaN', "hidden_dropout_prob is nan"),
    "truth": ('"num_hidden_layers": true', "num_hidden_layers is True, not"),
    "null": ('"hidden_size": null', "hidden_size is None, not"),
    "megabytes": (f'"hidden_act": "{"x" * 10**6}"', "hidden_act 'xxx"),
    "a deep list": (f'"hidden_size": {"[" * 900 + "]" * 900}', "hidden_size is [["),
    "a long list": (f'"hidden_size": {[0] * 10**5}', "hidden_size is [0, 0"),
}


@pytest.mark.parametrize(("text", "words"), VALUES.values(), ids=VALUES)
def test_values_of_a_config(work, refused, text, words):
    path = work.model / "bert_config.json"
    path.write_text(f'{{"vocab_size": 25, {text}}}')
    refused(f"{path}: {words}", init_checkpoint=None)


TASKS = {
    "an unknown key of megabytes": {"x" * 10**6: 1},
    "a key of megabytes that is near": {"labels" * 10**5: 1},
    "a file of megabytes": {"train": "x" * 10**6},
    "a column of megabytes": {"text_a": ["x" * 10**6]},
    "a huge column": {"text_a": 10**300},
    "a column far below": {"text_a": -(10**300)},
    "a format of megabytes": {"format": "x" * 10**6},
    "a NUL": {"train": "a\0b"},
    "a label of two lines": {"labels": ["a", "b\nc"]},
    "labels of lists": {"labels": [["a"], ["b"]]},
    "a folder": {"train": "."},
    "itself": {"train": "task.json"},
}


@pytest.mark.parametrize("changed", TASKS.values(), ids=TASKS)
def test_a_task_that_says_nonsense(work, refused, changed):
    path = work.data("own") / "task.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    refused(str(work.data("own")), task="own")


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_is_no_file(work, refused, kind):
    path = work.data("own") / "task.json"
    put(path, kind)
    refused(f"{path}: ", task="own")


@pytest.mark.parametrize("place", ["../secret.tsv", "/etc/passwd", "a/../../x.tsv"])
@pytest.mark.parametrize("key", ["train", "dev", "test"])
def test_a_task_names_files_inside(work, refused, key, place):
    path = work.data("own") / "task.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: place}))
    refused(f"{path}: {key!r} is {place!r}: name a file inside", task="own")


def test_a_task_may_link_to_data_elsewhere(work, watched):
    """People link data sets; what is read is never written."""
    path = work.data("own") / "train.tsv"
    path.rename(work.root / "elsewhere.tsv")
    path.symlink_to(work.root / "elsewhere.tsv")
    code, _, err = watched(task="own")
    assert code == 0, err


# What a run left.

USE = {"do_train": None, "do_predict": True, "init_checkpoint": None}
USE |= {"vocab_file": None, "bert_config_file": None}
NEEDED = ["run.json", "label_list.txt", "bert_config.json", "vocab.txt"]


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_a_run_that_are_others(resumed, refused, name, kind):
    """None of them passes for one that is absent."""
    path = resumed.root / "out" / name
    put(path, kind)
    refused(f"{path}:", **USE)


FLAGS = {
    "length": {"max_seq_length": "16"},
    "no length": {"max_seq_length": -5},
    "a length of lists": {"max_seq_length": [[]]},
    "truth as a length": {"max_seq_length": True},
    "truncation": {"truncation": "middle"},
    "casing": {"do_lower_case": "false"},
    "masks": {"masked_lm_prob": "x" * 10**6},
    "null": {"max_seq_length": None},
}


@pytest.mark.parametrize("changed", FLAGS.values(), ids=FLAGS)
def test_a_run_that_says_nonsense(resumed, refused, changed):
    path = resumed.root / "out" / "run.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"flags": content["flags"] | changed}))
    refused(f"{path}: damaged (", "pass --do_lower_case", **USE)


@pytest.mark.parametrize("said", [{}, {"flags": 5}, {"flags": ["max_seq_length"]}])
def test_a_run_that_says_nothing(tmp_path, said):
    (tmp_path / "run.json").write_text(json.dumps(said))
    assert run_folder.read_settings(tmp_path / "run.json") == {}


@pytest.mark.parametrize("text", ["", "\n\n", "no\n", "no\nno\n", "no\n\nyes\n"])
def test_labels_of_a_run(resumed, refused, text):
    path = resumed.root / "out" / "label_list.txt"
    path.write_text(text)
    refused(f"{path}: damaged: it has fewer than two labels", **USE)


ROWS = [
    '{"step": 2, "loss": 1.5}',
    '{"step": 3, "loss": "x"}',
    '{"step": 1e999, "loss": 1}',
    '{"step": true, "set": ["dev"]}',
    '{"step": 4, "set": {"a": 1}}',
    '{"loss": 1}',
    "[" * 50_000,
    "x" * 500_000,
    "[]",
    "9" * 5000,
    '{"step": 5, "loss": null}',
]


def test_records_that_are_none_are_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes("\n".join(ROWS).encode() + b'\n\xff\xfe\n{"step": 6}\n{"st')
    actual = [(row["step"], row.get("loss")) for row in recorder.read_records(path)]
    assert actual == [(2, 1.5), (5, None), (6, None)]


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_no_file(tmp_path, kind):
    put(tmp_path / "metrics.jsonl", kind)
    assert recorder.read_records(tmp_path / "metrics.jsonl") == []


REPORTED = ["metrics.jsonl", "evaluations.jsonl", "run.json", "baseline.json"]


@pytest.mark.parametrize("kind", ["binary", "pipe", "nonsense"])
def test_a_report_does_without_what_is_damaged(resumed, watched, kind):
    out = resumed.root / "out"
    for name in REPORTED:
        if kind == "nonsense":
            (out / name).write_text('{"flags": [], "versions": 5, "dev": {"x": "y"}}')
        elif name != "run.json":
            put(out / name, kind)
    (out / "evaluations.jsonl").unlink()
    (out / "evaluations.jsonl").write_text('{"step": 1, "set": "dev"}\n')
    code, _, err = watched(do_train=None, do_eval=True, report=True)
    assert code == 0, err
    assert "</html>" in (out / "report.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_is_damaged_is_made_anew(tmp_path, kind):
    def make():
        return {"lines": np.arange(3)}, {"rows": 3}

    cache.cached(tmp_path, "x", {"a": 1}, make=make)
    (path,) = tmp_path.iterdir()
    put(path, kind)
    if kind == "folder":
        with pytest.raises(UserError, match="cannot write the feature cache"):
            cache.cached(tmp_path, "x", {"a": 1}, make=make)
        return
    assert cache.cached(tmp_path, "x", {"a": 1}, make=make)[1] == {"rows": 3}
    assert cache.load(path)[1] == {"rows": 3} and not path.is_symlink()


NOTES = [None, {}, {"notes": "{}"}, {"notes": "[" * 50_000, "sha256": ""}]


@pytest.mark.parametrize("notes", NOTES, ids=["none", "empty", "no sum", "deep"])
def test_a_cache_without_its_notes_is_none(tmp_path, notes):
    safetensors.numpy.save_file({"x": np.ones(1)}, tmp_path / "x", notes)
    assert cache.load(tmp_path / "x") is None


SIDES = ["[]", '{"settings": 5}', '{"rows": "x"}', '{"settings": {"vocab_file": []}}']


@pytest.mark.parametrize("text", [*SIDES, "[" * 50_000, "\0"])
def test_what_is_said_beside_records(tmp_path, text):
    (tmp_path / ".x.tfrecord.json").write_text(text)
    facts = dataset._facts(str(tmp_path / "x.tfrecord"))
    assert isinstance(facts.get("settings", {}), dict)
    assert isinstance(facts.get("rows", 0), int)


BEST = ["", "{", "[]", '{"step": 1e999, "value": 1, "of": 1}', "[" * 50_000, "\0"]


@pytest.mark.parametrize("text", BEST)
def test_a_best_that_is_damaged_is_none(tmp_path, text):
    """It is found again by the evaluations that follow."""

    class Kept(evaluator.Evaluator):
        def __init__(self):
            self._folder = tmp_path
            self._identity = None
            self._settings = types.SimpleNamespace(measured={})

    (tmp_path / "best.json").write_text(text)
    assert Kept()._read_best() is None


# Processes of their own.

LIMIT = 6 << 30  # of addresses; TensorFlow itself takes most of that


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


@pytest.mark.nightly
def test_a_config_of_200_mb_takes_no_memory(work, script):
    path = work.model / "bert_config.json"
    with path.open("wb") as file:
        file.write(b" " * (200 << 20))
    result = script(work.flags(work.root / "out", do_train=True), preexec_fn=limited)
    assert_refused(result, f"{path}: more than 32 MiB, which no such file has")


def test_peak_memory_of_a_bomb(work):
    """The lists of a file that is just small enough: thirty bytes of memory a byte."""
    path = work.data("own") / "task.json"
    with path.open("w") as file:
        file.write(
            '{"text_a": 1, "label": 0, "labels": [' + "[]," * (10 << 20) + "[]]}"
        )
    assert path.stat().st_size < files.MOST_JSON
    *result, peak = measured(work.flags(work.root / "out", "own", do_train=True))
    assert_refused(result, f"{path}: 'labels' must be a list")
    assert peak < 2 << 10  # MB


def test_a_real_command_line_with_a_hostile_model(work, script):
    folder = shutil.copytree(work.model, work.root / "hostile")
    os.truncate(folder / "bert_model.ckpt.index", 1 << 33)
    flags = work.flags(work.root / "out", do_train=True, init_checkpoint=folder)
    result = script(flags, preexec_fn=limited)
    assert_refused(result, f"{folder / 'bert_model.ckpt'}.index: damaged: more than")
