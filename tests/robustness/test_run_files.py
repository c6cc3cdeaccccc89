"""Records that a run keeps for itself and for people: damaged, they stop nothing."""

import json
import shutil

import pytest

from bert_mgpu.training import recorder
from tests.support.runs import assert_same_run

FILES = ("metrics.jsonl", "evaluations.jsonl", "baseline.json", "best/best.json")
STRAY = [  # lines that may stand between good ones
    *('{"step": 1}', '{"step": "x", "loss": 1}', '{"step": 1e999, "loss": 1}', "[1]"),
    *('{"step": 2, "loss": "low"}', '{"step": 2, "loss": null}', '{"loss": 1}', "7"),
    *('{"step": 3, "set": 7, "eval_loss": 1}', '{"step": 3, "set": "dev"}', "null"),
    *('{"step": 4, "loss": [1]}', '{"step": 4, "loss": %s}' % ("9" * 400), "\u2028"),
    '{"step": 5, "set": "dev", "eval_loss": {"a": 1}}',
]
DAMAGE = {
    "empty": lambda content: b"",
    "not UTF-8": lambda content: b"\xff\xfe" * 99,
    "zeros": lambda content: bytes(999),
    "deep": lambda content: b"[" * 99_999 + b"\n" + content,
    "a list": lambda content: b"[1, 2]\n" * 3,
    "other objects": lambda content: b'{"dev": [1], "step": "x", "flags": 7}\n' * 3,
    "cut": lambda content: content[: len(content) // 2],
    "stray lines": lambda content: content + "\n".join(STRAY).encode(),
}


FLAGS = {"do_eval": True, "eval_steps": 3, "log_steps": 1, "report": True}


@pytest.fixture(scope="module")
def finished(trained):
    return trained("own", **FLAGS)


def flags(tiny, out, **changed):
    return tiny.flags(out, "own", **{"do_train": True, **FLAGS, **changed})


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_left_out(tmp_path, tiny, finished, inside, damage):
    """Of a finished run that is told to look again, with a report."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    for name in (*FILES, "run.json"):
        (out / name).write_bytes(damage((finished / name).read_bytes()))
    changed = {"do_train": None, "eval_steps": None}
    if json_of(out / "run.json") is None:  # it says how the model was trained
        shutil.copyfile(finished / "run.json", out / "run.json")
    code, _, err = inside(flags(tiny, out, **changed))
    assert code == 0, err
    assert "Traceback" not in err
    for name in ("eval_results.txt", "label_list.txt", "vocab.txt"):
        assert (out / name).read_bytes() == (finished / name).read_bytes()
    assert "</html>" in (out / "report.html").read_text()


def json_of(path):
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def test_a_training_goes_on_from_them(tmp_path, tiny, finished, inside):
    """Half a line, and lines of nothing, are gone when it has; the others stay."""
    out, straight = tmp_path / "out", tmp_path / "straight"
    for folder in (out, straight):
        shutil.copytree(finished, folder)
    for name in FILES:
        (out / name).write_bytes(DAMAGE["stray lines"]((finished / name).read_bytes()))
    for folder in (out, straight):
        args = flags(tiny, folder, num_train_epochs=2, report=False)
        assert inside(args)[0] == 0
    assert_same_run(out, straight)
    for name in FILES[:2]:
        rows = recorder.read_records(out / name)
        assert len(rows) == len((out / name).read_text().splitlines())
        steps = {row["step"] for row in recorder.read_records(straight / name)}
        assert steps <= {row["step"] for row in rows}


def test_records_are_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join([*STRAY, '{"step": 9, "loss": 0.5}', '{"step": 10']))
    actual = recorder.read_records(path)
    assert [row["step"] for row in actual] == [1, 2, 3, 9]
    assert actual[-1] == {"step": 9, "loss": 0.5}
