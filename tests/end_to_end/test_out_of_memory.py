"""A tower of several devices has no memory: the run goes on with smaller parts."""

import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import run_classifier
from bert_mgpu.core import errors
from bert_mgpu.distributed import launcher, strategies
from bert_mgpu.training import programs, towers
from tests.end_to_end import failing
from tests.end_to_end.failing import Failure
from tests.support.marks import rarely
from tests.support.processes import process
from tests.support.runs import keep_only

TOWERS, ROWS, SAVED = 4, 4, 3
WHENS = {"first step": 0, "later": SAVED, "evaluation": -1, "prediction": -1}


def flags(tiny, out, xla, **changed):
    settings = {"n_gpus": TOWERS, "cpu_devices": TOWERS, "train_batch_size": ROWS}
    settings |= {"xla": "on" if xla else "off", "num_train_epochs": 4}
    settings |= {"save_checkpoints_steps": SAVED, "padding": "max_length"}
    return tiny.flags(out, **{**settings, **changed})


def told(tiny, out, xla, **changed):
    """The flags of a run that has the smaller parts from its start."""
    parts = {"train_batch_size": ROWS // 2, "gradient_accumulation_steps": 2}
    return flags(tiny, out, xla, **parts, **changed)


def assert_near(actual, wanted, limit=1e-6):
    actual, wanted = google_read.read(actual), google_read.read(wanted)
    assert actual.keys() == wanted.keys()
    for name, value in wanted.items():
        if value.dtype.kind == "f" and "key/bias" not in name:
            worst = np.abs(actual[name] - value).max()
            assert worst <= limit * np.abs(value).max(), name
    assert actual["global_step"] == wanted["global_step"]


@pytest.fixture(scope="module")
def references(tiny, tmp_path_factory):
    """references(xla, default, when) -> an output_dir without a failure: trained with
    smaller parts from that step on.
    """
    made = {}

    def make(xla, default, when):
        key = xla, default, when == "later"
        if key in made:
            return made[key]
        out = tmp_path_factory.mktemp("reference")
        with pytest.MonkeyPatch.context() as patch:
            if default:
                patch.setattr(strategies, "make_strategy", strategies.mirrored)
            if when == "later":
                args = flags(tiny, out, xla, do_train=True, keep_checkpoint_max=0)
                assert run_classifier.main(["", *args]) == 0
                keep_only(out, SAVED)
            args = told(tiny, out, xla, do_train=True)
            assert run_classifier.main(["", *args]) == 0
        made[key] = out
        return out

    return make


@pytest.fixture
def go(inside, script, monkeypatch):
    """go(flags, xla, failure) -> (exit code, stdout, stderr).

    What XLA compiles runs in a process of its own: one keeps the memory mappings of all
    it has compiled, of which Linux allows it 65,530, and ends without a word beyond.
    """

    def run(args, xla, failure=None):
        if xla and failure:
            planted = json.dumps(dataclasses.asdict(failure))
            return script(["classifier", planted, *args], program=failing.__file__)
        if xla:
            return script(args)
        with monkeypatch.context() as patch:
            if failure:
                failing.plant(failure, patch.setattr)
            return inside(args)

    return run


def cases():
    """Tower, when, strategy, XLA: three are for each commit, all for the night."""
    every = itertools.product(range(TOWERS), WHENS, (False, True), (False, True))
    for case in every:
        tower, when, default, xla = case
        # The first step has a test below.
        number = [*WHENS].index(when)
        often = 0 < number == tower and default == bool(number % 2) and not xla
        name = f"tower {tower}, {when}, {'default' if default else 'tree'}"
        marks = () if often else (pytest.mark.nightly,)
        yield pytest.param(*case, id=name + ", xla" * xla, marks=marks)


@pytest.mark.parametrize(("tower", "when", "default", "xla"), [*cases()])
def test_goes_on(tiny, tmp_path, go, references, tower, when, default, xla):
    reference, out = references(xla, default, when), tmp_path / "out"
    failure = Failure(tower, WHENS[when], ROWS // 2, default)
    if when in ("first step", "later"):
        code, _, err = go(flags(tiny, out, xla, do_train=True), xla, failure)
        assert code == 0, err
        (line,) = (line for line in err.splitlines() if "continuing" in line)
        assert failing.TEXT[:19] in line and f"on CPU:{tower}:" in line
        assert "--train_batch_size=2 --gradient_accumulation_steps=2" in line
        assert_near(out, reference)
        return
    shutil.copytree(reference, out)
    do = {"evaluation": "do_eval", "prediction": "do_predict"}[when]
    sizes = {"eval_batch_size": ROWS, "predict_batch_size": ROWS}
    code, _, err = go(flags(tiny, out, xla, **{do: True}, **sizes), xla, failure)
    assert code == 0, err
    (line,) = (line for line in err.splitlines() if "continuing" in line)
    assert f"on CPU:{tower}:" in line and "batches of 2 rows per tower" in line
    shutil.copytree(reference, tmp_path / "told")
    sizes = {"eval_batch_size": ROWS // 2, "predict_batch_size": ROWS // 2}
    args = flags(tiny, tmp_path / "told", xla, **{do: True}, **sizes)
    assert go(args, xla)[0] == 0
    for file in ("eval_results.txt", "predict.txt", "test_results.tsv"):
        wanted = tmp_path / "told" / file
        assert wanted.exists() == (out / file).exists()
        if wanted.exists():
            assert (out / file).read_text() == wanted.read_text()


def test_a_script_starts_itself_anew(tiny, tmp_path, references):
    """After a failure in the first step, which no later step of a process survives."""
    reference, out = references(False, True, "first step"), tmp_path / "out"
    failure = Failure(TOWERS - 1, 0, ROWS // 2, default=True)
    planted = json.dumps(dataclasses.asdict(failure))
    args = ["classifier", planted, *flags(tiny, out, False, do_train=True)]
    started = process(args, program=failing.__file__)
    _, err = started.communicate(timeout=300)
    assert started.returncode == 0, err
    lines = err.splitlines()
    (number,) = (
        n for n, line in enumerate(lines) if "continuing from the start" in line
    )
    assert f"on CPU:{TOWERS - 1}: continuing" in lines[number]
    assert "Traceback" not in err
    again = "\n".join(lines[number + 1 :])
    assert "2 examples x 4 towers x 2 accumulation steps = 16 per step" in again
    assert_near(out, reference)


def test_called_as_a_function_it_says_what_to_pass(tiny, tmp_path, capfd, monkeypatch):
    failing.plant(Failure(1, 0, ROWS // 2), monkeypatch.setattr)
    args = flags(tiny, tmp_path, False, do_train=True)
    assert run_classifier.main(["", *args]) == 4
    last = capfd.readouterr().err.splitlines()[-1]
    assert "on CPU:1: pass --train_batch_size=2 --gradient_accumulation_steps=2" in last


@pytest.mark.nightly
@pytest.mark.parametrize("default", [False, True], ids=["tree", "default"])
@pytest.mark.parametrize("xla", [False, True], ids=["plain", "xla"])
def test_more_memory_than_there_is(tiny, tmp_path, go, references, default, xla):
    """Not planted: an allocation of a petabyte beside one tower."""
    failure = Failure(2, 0, ROWS // 2, default, real=True)
    code, _, err = go(flags(tiny, tmp_path, xla, do_train=True), xla, failure)
    assert code == 0, err
    (line,) = (line for line in err.splitlines() if "continuing" in line)
    assert line.startswith("OOM when allocating") and "on CPU:2:" in line
    assert_near(tmp_path, references(xla, default, "first step"))


def test_what_fits_is_found_once(tiny, tmp_path, go):
    """Three evaluations on the way: the first one finds what the others take."""
    failure = Failure(1, -1, ROWS // 2)
    changed = {"do_train": True, "eval_steps": 2, "eval_batch_size": ROWS}
    code, _, err = go(flags(tiny, tmp_path, False, **changed), False, failure)
    assert code == 0, err
    assert len((tmp_path / "evaluations.jsonl").read_text().splitlines()) == 3
    assert sum("continuing with batches of 2" in line for line in err.splitlines()) == 1


@pytest.mark.parametrize("default", [True, *rarely(False)])
def test_no_memory_for_what_devices_do_together(
    tiny, tmp_path, go, references, monkeypatch, default
):
    """Each device has it for its own sums; the second one fails once, after them."""
    planted, update = [], programs.Programs._update_replica

    def fails():
        planted.append(None)
        if len(planted) == 1:
            raise MemoryError(failing.TEXT)
        return np.float32(0)

    def failing_update(self, losses, trained, slots, *, norm, **others):
        # Traced once for all devices: the first of them that comes here fails.
        norm += tf.ensure_shape(tf.numpy_function(fails, [], tf.float32), [])
        return update(self, losses, trained, slots, norm=norm, **others)

    monkeypatch.setattr(programs.Programs, "_update_replica", failing_update)
    if default:
        monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)
    code, _, err = go(flags(tiny, tmp_path, False, do_train=True), False)
    assert code == 0, err
    (line,) = (line for line in err.splitlines() if "continuing" in line)
    assert "--train_batch_size=2 --gradient_accumulation_steps=2" in line
    assert_near(tmp_path, references(False, default, "first step"))


def test_a_cancelled_step_has_lacked_memory(tiny, tmp_path, go, monkeypatch):
    """TensorFlow may name the device that was cancelled, not the one that failed."""
    step, cancelled = towers.Towers.train_step, []

    def train_step(self, *args, **named):
        result = step(self, *args, **named)
        if not cancelled:
            cancelled.append(None)
            raise tf.errors.CancelledError(None, None, "RecvAsync is cancelled.")
        return result

    monkeypatch.setattr(towers.Towers, "train_step", train_step)
    code, _, err = go(flags(tiny, tmp_path, False, do_train=True), False)
    assert code == 0, err
    (line,) = (line for line in err.splitlines() if "continuing" in line)
    assert line.startswith("a device failed in the sum or the update, probably out of")


def test_a_cancelled_prediction_is_not_told_as_lacking_memory(
    tiny, tmp_path, go, trained, monkeypatch
):
    """Its devices do nothing together."""
    shutil.copytree(trained(), tmp_path / "out")

    ask = towers.Towers.launch_outputs

    def cancelled(self, *args):
        ask(self, *args)
        raise tf.errors.CancelledError(None, None, "cancelled for another reason")

    monkeypatch.setattr(towers.Towers, "launch_outputs", cancelled)
    args = flags(tiny, tmp_path / "out", False, do_eval=True, train_batch_size=2)
    code, _, err = go(args, False)
    assert code == 1 and "continuing with" not in err


def test_what_stands_behind_a_long_list_of_lines_is_found():
    """TensorFlow tells first where an operation was made, line by line."""
    made = "".join(f'File "a/b/c{n}.py", line {n}, in call\n' for n in range(900))
    text = f"Graph execution error:\n\n{made}\n{failing.TEXT}\n\t [[{{{{node x}}}}]]"
    error = tf.errors.ResourceExhaustedError(None, None, text)
    assert len(text) > 25_000
    assert errors.out_of_memory(error) == failing.TEXT


@pytest.mark.parametrize(
    "text",
    [
        "failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
        "NCCL failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    ],
)
def test_what_libraries_of_nvidia_say_without_memory(text):
    assert errors.out_of_memory(tf.errors.InternalError(None, None, text)) == text
    assert errors.out_of_memory(tf.errors.InternalError(None, None, "cuda")) is None


@pytest.mark.parametrize("said", ["3", "0", "two"])
def test_parts_that_do_not_divide_are_refused(tiny, tmp_path, script, said):
    env = {launcher.PARTS: said}
    code, _, err = script(flags(tiny, tmp_path, False, do_train=True), env=env)
    assert code == 2 and err.splitlines()[-1].startswith(
        f"error: {launcher.PARTS}={said}"
    )
