"""A script in which something goes wrong in one process, after some of its steps.

faulty.py RANK STEP FAULT SCRIPT FLAGS...: a program of its own, since the fault must
come from inside of a process that horovodrun has started. How each process ends stands
in $CODES/RANK, since horovodrun does not tell of all.
"""

import errno
import os
import pathlib
import signal
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))
STEP = int(sys.argv[2])
FORWARD = " in evaluation"


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def freeze(*_):
    os.kill(os.getpid(), signal.SIGSTOP)


def hang(*_):
    while True:
        time.sleep(1)


def terminate(*_):
    os.kill(os.getpid(), signal.SIGTERM)


def crash(*_):
    raise RuntimeError("a fault of the test")


def no_memory(*_):
    raise MemoryError


def hang_inside(towers, batch):
    """After it has said that it begins: as far as those that wait for it."""
    towers.group.working(STEP)
    hang()


def make_nan(towers, batch):
    """An input that no finite loss follows from: the weights of this process."""
    name = "bert/embeddings/LayerNorm/gamma"
    variable = towers._replicas[0].params[name]
    variable.assign(np.full(variable.shape, np.nan, np.float32))


def make_nan_once(towers, batch, done=[]):  # noqa: B006 (it is kept)
    if not done:
        make_nan(towers, batch)
    done.append(STEP)


FAULTS = {
    "killed": kill,
    "frozen": freeze,
    "hangs": hang,
    "hangs inside": hang_inside,
    "SIGTERM": terminate,
    "crash": crash,
    "no memory": no_memory,
    "NaN": make_nan,
    "NaN once": make_nan_once,
}


def watch_over(child):
    """Stands between horovodrun and the process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    name = os.environ["HOROVOD_RANK"]
    (pathlib.Path(os.environ["CODES"]) / name).write_text(str(code))
    sys.exit(code if code >= 0 else 128 - code)


def faulty_step(fault):
    from bert_mgpu.training import towers

    original = towers.Towers.train_step

    def step(self, batch, number, *rest, **named):
        if number == STEP:
            FAULTS[fault](self, batch)
        return original(self, batch, number, *rest, **named)

    towers.Towers.train_step = step


def faulty_forward(fault):
    """In its second batch, the first time."""
    from bert_mgpu.training import towers

    original, batches = towers.Towers.launch_outputs, []

    def ask(self, batch):
        batches.append(batch)
        if len(batches) == 2:
            FAULTS[fault](self, batch)
        return original(self, batch)

    towers.Towers.launch_outputs = ask


def main():
    child = os.fork()
    if child:
        watch_over(child)
    rank, fault, script = sys.argv[1], sys.argv[3], sys.argv[4]
    if "BERT_MGPU_TOWERS" in os.environ:  # it has started anew, with another rank
        rank = None
    sys.argv = [script, *sys.argv[5:]]
    if os.environ["HOROVOD_RANK"] == rank and fault == "full disk":
        from bert_mgpu.checkpoints import google_read

        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "model.ckpt")

        google_read.write = full
    elif os.environ["HOROVOD_RANK"] == rank and fault.endswith(FORWARD):
        faulty_forward(fault.removesuffix(FORWARD))
    elif os.environ["HOROVOD_RANK"] == rank:
        faulty_step(fault)
    from bert_mgpu.cli import run_classifier, run_pretraining

    work = run_pretraining.main if "pretraining" in script else run_classifier.main
    sys.exit(work())


if __name__ == "__main__":
    main()
