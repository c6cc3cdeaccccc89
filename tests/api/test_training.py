"""`bert_mgpu.train`: a training in a process of its own, and its ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import bert_mgpu
from bert_mgpu.api import training
from tests.support.paths import ROOT
from tests.support.runs import tree


def flags(tiny, out, **changed):
    return {
        "task_name": "own",
        "data_dir": tiny.data("own"),
        "init_checkpoint": tiny.model,
        "output_dir": out,
        "max_seq_length": 16,
        "train_batch_size": 4,
        "learning_rate": 1e-3,
        "num_train_epochs": 1,
        "xla": "off",
        **changed,
    }


def test_a_training_gives_its_scores(tiny, tmp_path, capfd):
    out = tmp_path / "out"
    capfd.readouterr()
    scores = bert_mgpu.train(**flags(tiny, out, report=True))
    assert capfd.readouterr() == ("", "")
    lines = (line.split(" = ") for line in (out / "eval_results.txt").open())
    assert scores == {name: float(value) for name, value in lines}
    assert scores.output_dir == out and scores.report.is_file()
    shown = scores._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "sandbox" in shown and "<script" not in shown
    with bert_mgpu.load(out) as model:
        assert model.predict("sun joy").label in ("no", "yes")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"n_gpu": 2}, bert_mgpu.UserError, "did you mean --n_gpus"),
        ({"n_gpus": 0}, bert_mgpu.UserError, "--n_gpus=0: pass at least 1"),
        ({"data_dir": "none"}, bert_mgpu.UserError, "--data_dir=none: no such folder"),
        ({"task_name": None}, bert_mgpu.UserError, "--task_name is missing"),
        ({"help": True}, bert_mgpu.UserError, "bert_mgpu train --help"),
        ({"labels": ["a,b", "c"]}, bert_mgpu.UserError, "'a,b': a comma separates"),
    ],
)
def test_mistakes_are_exceptions(tiny, tmp_path, capfd, changed, error, message):
    """With the script's line, and nothing on the screen."""
    with pytest.raises(error) as raised:
        bert_mgpu.train(**flags(tiny, tmp_path / "out", **changed))
    assert message in str(raised.value) and "\n" not in str(raised.value)
    assert not str(raised.value).startswith("error: ")
    assert capfd.readouterr() == ("", "") and tree(tmp_path) == {}


ENDS = {
    3: bert_mgpu.Diverged,
    4: bert_mgpu.OutOfMemory,
    75: bert_mgpu.Preempted,
    130: bert_mgpu.Interrupted,
}


@pytest.mark.parametrize("code", [*ENDS, 1, -9])
def test_exit_codes_are_exceptions(code):
    line = f"{getattr(ENDS.get(code), 'label', 'error')}: it ended"
    end = f"import os; os.kill(os.getpid(), {-code})" if code < 0 else f"exit({code})"
    command = [
        sys.executable,
        "-c",
        f"print('log'); print({line!r}, flush=True); {end}",
    ]
    with pytest.raises(bert_mgpu.RunError) as raised:
        training._run(command, False)
    assert type(raised.value) is ENDS.get(code, bert_mgpu.RunError)
    if code in ENDS:
        assert str(raised.value) == "it ended"
    else:  # all that is known
        assert "log" in str(raised.value) and line in str(raised.value)


def test_the_log_is_shown_where_it_is_asked_for(capsys):
    training._run([sys.executable, "-c", "print('a line')"], True)
    assert capsys.readouterr().out == "a line\n"


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, which it does not in a process of xdist."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


CHILD = """
import pathlib, signal, sys, time
folder, got = pathlib.Path(sys.argv[1]), []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: got.append(signal.Signals(number).name))
folder.joinpath("ready").touch()
while not got:
    time.sleep(0.01)
time.sleep(1)
folder.joinpath("saved").write_text(" ".join(got))
sys.exit(130)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_training_is_told_once(tmp_path, end):
    """A terminal and a notebook send SIGINT to all processes of the group.

    A second one would end a training before it has saved. Where the caller is killed,
    the system tells the training, which nobody waits for any more.
    """
    package = tmp_path / "bert_mgpu"  # in the place of ours
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CHILD)
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from bert_mgpu.api import training\n"
        f"command = [sys.executable, '-c', training._COMMAND, {str(tmp_path)!r}]\n"
        "training._run(command, False)"
    )
    # Its standard error is the child's output, and may end late.
    parent = subprocess.Popen(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        # Tests that a shell runs in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert appears(tmp_path / "ready")
    os.killpg(parent.pid, end)
    assert parent.wait(60) != 0
    assert appears(tmp_path / "saved")
    name = {signal.SIGINT: "SIGINT", signal.SIGKILL: "SIGTERM"}[end]
    assert (tmp_path / "saved").read_text() == name


def appears(path):
    """Whether a file is there within half a minute."""
    for _ in range(3000):
        if path.exists():
            time.sleep(0.1)
            return True
        time.sleep(0.01)
    return False


def test_a_plan_is_printed(tiny, tmp_path, capfd):
    out = tmp_path / "out"
    assert bert_mgpu.train(**flags(tiny, out, plan=True)) == {}
    assert "steps" in capfd.readouterr().out and not (out / "metrics.jsonl").exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_reaches_the_training(tmp_path):
    """It ends by itself, after it has saved, before the exception goes on.

    Its log is read meanwhile: nobody else would, and a full pipe would hold it up.
    """
    saved = tmp_path / "saved"
    code = (
        "import pathlib, signal, sys, time\n"
        "def stop(*_):\n"
        "    time.sleep(0.5); print('saving' * 100_000, flush=True)\n"
        f"    pathlib.Path({str(saved)!r}).touch(); sys.exit(130)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )

    def interrupt():
        time.sleep(1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        training._run([sys.executable, "-c", code], False)
    assert saved.exists()


def test_scores_without_a_report_are_shown_as_text(tmp_path):
    shown = training.Scores({"eval_accuracy": 0.5}, tmp_path)._repr_html_()
    assert (
        shown
        == f"<pre>{json.dumps({'eval_accuracy': 0.5}, indent=2)}</pre>".replace(
            '"', "&quot;"
        )
    )
