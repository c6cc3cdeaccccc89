"""The log of a run: whoever reads it may go away; a terminal gets a bar."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import terminal
from tests.support.processes import process

COLUMNS = 72  # of a terminal, which is not the default
OTHERS = re.compile(r"[IWE]0000 |20\d\d-\d\d-\d\d |WARNING: All log|To enable ")
LONG = {"do_train": True, "num_train_epochs": 1e5, "log_steps": 1}


def started(run, file, size=0):
    """Waits until the file is there, with so many bytes."""
    while not file.exists() or file.stat().st_size < size:
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)


def test_a_run_ends_well_when_no_one_reads_its_log(tiny, tmp_path):
    flags = tiny.flags(tmp_path / "out", do_train=True, do_predict=True, log_steps=1)
    run = process(flags)
    run.stderr.readline()
    run.stderr.close()
    assert run.wait(timeout=300) == 0
    assert google_read.read(tmp_path / "out")["global_step"] == 6
    assert (tmp_path / "out" / "predict.txt").exists()


def test_ctrl_c_without_a_reader_is_ctrl_c(tiny, tmp_path):
    """As in `2>&1 | tee log`, where the key stops tee first."""
    out = tmp_path / "out"
    run = process(tiny.flags(out, **LONG))
    started(run, out / "metrics.jsonl", size=1)  # after a step: the loop listens
    run.stderr.close()
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=300) == 130
    assert google_read.read(out)["global_step"] > 0


def test_sigterm_while_tensorflow_loads(tiny, tmp_path):
    out = tmp_path / "out"
    run = process(tiny.flags(out, **LONG), anew=True)
    started(run, out / ".lock")  # made just before
    run.terminate()
    _, err = run.communicate(timeout=300)
    assert run.returncode == 75
    assert err == "stopped: run the same command again to resume from what is saved\n"


def test_a_terminal_shows_a_bar(tiny, tmp_path):
    """Beside steps, loss, rate and speed, in lines that fit; all flags of logs work."""
    out, cache = tmp_path / "out", tmp_path / "cache"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    flags = {"do_train": True, "do_eval": True, "do_predict": True, "log_steps": 1}
    flags |= {"cache_dir": cache, "max_eval_examples": 5, "max_predict_examples": 4}
    flags |= {"tf_log": True, "lr_decay_power": 0, "warmup_proportion": 0}
    env = {"TERM": "xterm", "COLUMNS": ""}
    command = process(tiny.flags(out, **flags), env=env, stderr=theirs)
    os.close(theirs)
    shown = b""
    while command.poll() is None or select.select([ours], [], [], 0)[0]:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
    assert command.wait(timeout=60) == 0, shown
    bars = re.findall(r"train:.*?6/6 \[[^\]]*\]", shown.decode())
    assert bars and "loss " in bars[-1] and " ex/s" in bars[-1], shown.decode()[-3000:]
    words = " ".join(shown.decode().split())
    assert "learning rate 0.001; seed" in words and "after a warm-up" not in words
    text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", shown.decode())
    lines = [line for line in re.split(r"[\r\n]+", text) if not OTHERS.match(line)]
    for line in lines:
        assert terminal.width(line) <= COLUMNS or os.sep in line.split()[-1]
    assert max(map(terminal.width, lines)) > COLUMNS - 10  # of which it makes use
    # Losses of steps stay above the bar.
    assert any(line.startswith("step 6/6  ") for line in lines)
    rates = re.findall(
        r'"learning_rate": ([^,}]*)', (out / "metrics.jsonl").read_text()
    )
    assert [float(rate) for rate in rates] == [0.001] * 6  # power 0: no decay
    assert ", a sample (--max_eval_examples=5)" in words
    assert "a sample (--max_train" not in words
    assert len(list(cache.iterdir())) == 3
    assert len((out / "predict.txt").read_text().splitlines()) == 4
    assert not (out / "tensorflow.log").exists() and not (out / "cache").exists()
