"""Rows that are predicted as they come from standard input."""

import json
import shutil
import signal
import subprocess

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.training.towers import Towers
from tests.end_to_end import failing
from tests.support.processes import process
from tests.support.runs import tree
from tests.support.standard_input import typed
from tests.support.tiny import rows


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained("own", num_train_epochs=4), tmp_path / "model")


@pytest.fixture
def listening(tiny, model):
    """listening(**flags) -> a process that predicts what it is sent."""
    started = []

    def start(**flags):
        args = {"do_predict": True, "predict_file": "-", "xla": None, **flags}
        out = args.pop("output_dir", model)
        one = process(tiny.flags(out, "own", **args), stdin=subprocess.PIPE)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()


def texts(count, seed):
    return [a for _, a, _ in rows(count, seed)]


@pytest.fixture
def answered(tiny, model, inside, tmp_path):
    """answered(texts, **flags) -> (labels by a stream, labels by a file, log)."""

    def run(sent, **flags):
        file = tmp_path / "sent.tsv"
        file.write_text("".join(f"?\t{text}\n" for text in sent))
        args = {"do_predict": True, "predict_batch_size": 8, **flags}
        args["predict_file"] = "-"
        with typed(file):
            code, out, err = inside(tiny.flags(model, "own", **args))
        assert code == 0, err
        args["predict_file"] = file
        assert inside(tiny.flags(model, "own", **args))[0] == 0
        lines = out.splitlines(), (model / "predictions.jsonl").open()
        actual, wanted = ([json.loads(line)["label"] for line in one] for one in lines)
        return actual, wanted, err

    return run


def test_a_batch_that_does_not_fit_is_halved(answered, monkeypatch):
    """As that of a file: the batches after it are small from the start."""
    failing.plant(failing.Failure(0, -1, 2), monkeypatch.setattr)
    actual, wanted, log = answered(texts(40, 5))
    assert actual == wanted and len(actual) == 40
    lines = [line for line in log.splitlines() if "continuing with" in line]
    assert "batches of 4 rows per tower" in lines[0]
    assert "batches of 2 rows per tower" in lines[-1] and len(lines) == 2


def test_answers_in_few_shapes_are_those_of_a_file(answered, monkeypatch):
    """Whatever packing the training used."""
    launched, launch = [], Towers.launch_outputs

    def recorded(self, placed):
        launched.append(placed.columns[0])
        return launch(self, placed)

    monkeypatch.setattr(Towers, "launch_outputs", recorded)
    actual, wanted, _ = answered(texts(3, 6), padding="pack", predict_batch_size=64)
    assert actual == wanted and len(actual) == 3
    _, rows, length = launched[0]["input_ids"].shape  # of the stream, which was first
    assert rows <= 4 and length.bit_count() == 1
    assert "first_tokens" not in launched[0]  # one example a row


def test_each_row_is_answered_before_the_next_is_sent(
    tiny, model, inside, listening, tmp_path
):
    sent = [*texts(5, 3), "", *texts(40, 4)]
    file = tmp_path / "sent.tsv"
    file.write_text("".join(f"?\t{text}\n" for text in sent))
    args = {"do_predict": True, "predict_file": file}
    assert inside(tiny.flags(model, "own", **args))[0] == 0
    wanted = [json.loads(line) for line in (model / "predictions.jsonl").open()]
    before = tree(model)
    run = listening(n_gpus=2, predict_batch_size=4)
    actual = []
    for text in sent[:6]:  # one by one
        run.stdin.write(f"?\t{text}\n")
        run.stdin.flush()
        actual.append(json.loads(run.stdout.readline()))
    out, err = run.communicate("".join(f"?\t{text}\n" for text in sent[6:]), 120)
    assert run.returncode == 0, err
    assert "predicted 46 examples" in err
    actual += [json.loads(line) for line in out.splitlines()]
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        shares = [*one.pop("probabilities").values()]
        assert shares == pytest.approx([*other.pop("probabilities").values()], abs=2e-6)
        assert one == other
    assert tree(model) == before  # nothing is written


def test_a_row_that_cannot_be_read_ends_it_after_the_others(listening):
    run = listening(strict=True)
    out, err = run.communicate("?\tsun\n?\train\nno tab\n?\tsun\n", 120)
    assert run.returncode == 2
    assert [json.loads(line)["line"] for line in out.splitlines()] == [1, 2]
    assert err.splitlines()[-1].startswith("error: -:3: 1 column")


BAD = {  # a task's own columns, and lines of which the second cannot be read
    "tsv": ({"text_a": 1, "label": 0}, b"?\tsun\nno tab\n?\train\n"),
    "bytes": ({"text_a": 1, "label": 0}, b"?\tsun\n?\t\xff\xfe\n?\train\n"),
    "jsonl": ({"text_a": "a"}, b'{"a": "sun"}\n{"b": "joy"}\n{"a": "rain"}\n'),
    "csv": ({"text_a": 0}, b'sun,1\n"joy,1\nrain,2\n'),
}


@pytest.fixture
def streamed(model, tmp_path, inside):
    """streamed(bytes, **flags) -> (lines of JSON, log) of the trained folder alone."""

    def run(sent, **flags):
        file = tmp_path / "sent"
        file.write_bytes(sent)
        values = {"output_dir": model, "do_predict": "true", "predict_file": "-",
                  "xla": "off", **flags}  # fmt: skip
        with typed(file):
            code, out, err = inside([f"--{k}={v}" for k, v in values.items()])
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()], err

    return run


@pytest.mark.parametrize("case", [*BAD])
def test_a_bad_row_is_answered_by_its_error(streamed, model, case):
    """In its place, and the rows after it are predicted."""
    task, sent = BAD[case]
    facts = json.loads((model / "run.json").read_text())
    suffix = "tsv" if case == "bytes" else case
    facts["task"] = {"name": "own", **task, "train": f"train.{suffix}"}
    (model / "run.json").write_text(json.dumps(facts))
    lines, log = streamed(sent)
    assert [line["line"] for line in lines] == [1, 2, 3]
    assert [line.get("label") for line in lines] == ["yes", None, "no"]
    assert lines[1].keys() == {"line", "error"}
    assert lines[1]["error"].startswith("-:2: ")
    assert "predicted 2 examples; 1 row could not be read" in log


def test_an_unclosed_quote_delays_no_answer(listening):
    """Each line is answered while the input is still open."""
    run = listening(file_format="csv")
    lines = []
    for sent in ("?,sun", '?,"unclosed', "?,rain", '?,"sun, joy"'):
        run.stdin.write(f"{sent}\n")
        run.stdin.flush()
        lines.append(json.loads(run.stdout.readline()))
    assert [line["line"] for line in lines] == [1, 2, 3, 4]
    assert [line.get("label") for line in lines] == ["yes", None, "no", "yes"]
    assert lines[1]["error"].startswith("-:2: a quote is not closed on its line")


def test_an_object_that_does_not_end_delays_no_answer(listening):
    """Nor do the brackets of a list."""
    run, sent = listening(file_format="jsonl", text_a_column="a"), '{"a": "sun"}'
    lines = []
    for line in (sent, "{", sent, "[", sent, "]", sent):
        run.stdin.write(f"{line}\n")
        run.stdin.flush()
        lines.append(json.loads(run.stdout.readline()))
    assert [line["line"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert [line.get("label") for line in lines] == ["yes", None] * 3 + ["yes"]
    assert lines[1]["error"] == (
        "-:2: not a JSON object: '{': write each object on a line of its own"
    )


def test_bare_lines_and_objects_of_a_stream(streamed):
    wanted, _ = streamed(b"?\tsun joy\n?\train\n")
    texts, log = streamed(b"sun joy\nrain\n")
    assert texts == wanted
    assert "standard input: one text per line (--predict_format=text)" in log
    later, log = streamed(b"\n?\tsun joy\n")
    assert [line["line"] for line in later] == [1, 2]
    assert later[1]["label"] == "yes"
    assert "standard input: rows as the task's own files have them" in log
    records = [{"text_a": "sun joy"}, {"text_a": "rain"}]
    sent = "".join(json.dumps(record) + "\n" for record in records)
    objects, log = streamed(sent.encode())
    assert objects == wanted and "a JSON object per line" in log
    told, _ = streamed(b"sun joy\nrain\n", predict_format="text")
    assert told == wanted


@pytest.mark.parametrize("how", ["reader", "SIGTERM"])
def test_it_ends_though_input_may_come(listening, how):
    """Nobody closes standard input, for which a thread still waits."""
    run = listening()
    for _ in range(2):
        run.stdin.write("?\tsun\n")
        run.stdin.flush()
        run.stdout.readline()
    if how == "SIGTERM":
        run.send_signal(signal.SIGTERM)
    else:
        run.stdout.close()
        run.stdin.write("?\tsun\n")
        run.stdin.flush()
    code = run.wait(60)
    assert code == {"reader": 0, "SIGTERM": 75}[how], run.stderr.read()


def test_outputs_that_are_no_numbers_are_no_predictions(
    tiny, model, tmp_path, listening
):
    out = tmp_path / "out"
    shutil.copytree(model, out)
    (name,) = {path.name.partition(".index")[0] for path in out.glob("*.index")}
    tensors = google_read.read(out)
    tensors["output_bias"] = np.full_like(tensors["output_bias"], np.nan)
    google_read.write(out / name, tensors)
    run = listening(output_dir=out)
    output, err = run.communicate("?\tsun\n", 120)
    assert (run.returncode, output) == (3, ""), err


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_format_is_that_of_the_task(tiny, tmp_path, inside, suffix):
    line = {"csv": '"{}",{}\n', "jsonl": '{{"a": "{}", "y": "{}"}}\n'}[suffix]
    header = {"csv": "a,y\n", "jsonl": ""}[suffix]
    lines = [line.format(a, ("no", "yes")[label]) for label, a, _ in rows(24, 1)]
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    (data / f"train.{suffix}").write_text(header + "".join(lines))
    task = {"train": f"train.{suffix}", "text_a": "a", "label": "y"}
    (data / "task.json").write_text(json.dumps(task))
    args = {"data_dir": data, "do_train": True}
    assert inside(tiny.flags(out, "mine", **args))[0] == 0
    args = {"data_dir": data, "do_predict": True, "predict_file": "-"}
    run = process(tiny.flags(out, "mine", **args), stdin=subprocess.PIPE)
    output, err = run.communicate(header + "".join(lines[:3]), 120)
    assert run.returncode == 0, err
    assert len(output.splitlines()) == 3


def test_a_reader_that_goes_away_is_no_error(listening):
    run = listening()
    run.stdin.write("?\tsun\n")
    run.stdin.flush()
    run.stdout.readline()
    run.stdout.close()
    try:
        run.stdin.write("?\tsun\n" * 10)
        run.stdin.close()
    except BrokenPipeError:
        pass
    assert run.wait(60) == 0, run.stderr.read()
