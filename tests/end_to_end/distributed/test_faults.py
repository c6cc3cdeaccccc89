"""One process goes wrong: all end, say why, and the same command goes on exactly."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import time

import pytest

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import PeerLost
from tests.support.runs import assert_same_run

FAULTY = pathlib.Path(__file__).with_name("faulty.py")
LOST, KILLED = PeerLost.exit_code, -signal.SIGKILL
KILLS = 40
FLAGS = {"do_train": True, "num_train_epochs": 6, "save_checkpoints_steps": 5}


def flags_of(tiny, output, **changed):
    return tiny.flags(output, **{**FLAGS, **changed})


def run_with(cluster, fault, rank, step, args, folder, processes=2):
    """(exit.json, exit code of each rank, lines of the processes)."""
    wrapped = [str(rank), str(step), fault, "run_classifier_mgpu.py", *args]
    (folder / "codes").mkdir()
    env = {"CODES": str(folder / "codes")}
    code, out = cluster.run(processes, wrapped, program=FAULTY, env=env)
    assert code == 1, out
    end = json.loads((folder / "out" / "exit.json").read_text())
    codes = {int(f.name): int(f.read_text()) for f in (folder / "codes").iterdir()}
    output = [line for line in out.splitlines() if re.match(r"\[\d+\]<", line)]
    # What horovodrun itself has to kill takes whoever watches over it along.
    return end, [codes.get(rank, KILLED) for rank in range(processes)], output


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory, script):
    """The run that nothing happens to, by one process."""
    output = tmp_path_factory.mktemp("straight") / "out"
    code, _, err = script(flags_of(tiny, output, n_gpus=2))
    assert code == 0, err
    return output


@pytest.mark.parametrize(
    ("fault", "rank", "codes", "reason"),
    [
        ("killed", 1, [LOST, KILLED], "connection broke"),
        pytest.param(
            "killed", 0, [KILLED, LOST], "connection broke", marks=pytest.mark.faults
        ),
        pytest.param(
            "hangs", 1, [LOST, LOST], "see --peer_timeout", marks=pytest.mark.faults
        ),
    ],
)
def test_a_lost_process(tiny, tmp_path, cluster, straight, fault, rank, codes, reason):
    args = flags_of(tiny, tmp_path / "out", peer_timeout=20)
    end, actual, output = run_with(cluster, fault, rank, 12, args, tmp_path)
    assert (end["code"], end["rank"], end["step"]) == (LOST, rank, 12), output
    assert reason in end["reason"] and actual == codes, output
    errors = [line for line in output if "error:" in line]
    assert f"process {rank} was lost at step 12" in errors[0] and len(errors) == 1
    assert not any("Traceback" in line for line in output)
    assert run_alone(flags_of(tiny, tmp_path / "out", n_gpus=2)) == 0
    assert_same_run(straight, tmp_path / "out")
    assert not (tmp_path / "out" / "exit.json").exists()


def test_sigterm_at_one_stops_all_after_the_same_step(
    tiny, tmp_path, cluster, straight
):
    """One checkpoint, 75 from each; one process with as many towers goes on exactly."""
    args = flags_of(tiny, tmp_path / "out", save_checkpoints_steps=1000)
    end, actual, output = run_with(cluster, "SIGTERM", 1, 7, args, tmp_path)
    assert actual == [75, 75] and end["code"] == 75, output
    (step,) = train_state.saved_steps(tmp_path / "out")
    assert 7 < step < 11 and any(f"stopped: step {step} of 18" in x for x in output)
    assert run_alone(flags_of(tiny, tmp_path / "out", n_gpus=2)) == 0
    assert_same_run(straight, tmp_path / "out")


def run_alone(args):
    from bert_mgpu.cli import run_classifier

    return run_classifier.main(["run_classifier_mgpu.py", *args])


@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.faults)])
def test_the_others_go_on_without_a_lost_process(
    tiny, tmp_path, cluster, straight, rank
):
    """Elastic: whoever is left has its towers, from the newest checkpoint on."""
    code, out = elastic(tiny, tmp_path, cluster, "killed", rank)
    assert code == 0, out
    assert (
        f"process {rank} was lost at step 12" in out and "continuing without it" in out
    )
    assert "2 towers of 1 process" in out or "2 towers on 1 CPU device" in out
    assert_same_run(straight, tmp_path / "out")


def elastic(tiny, tmp_path, cluster, fault, rank):
    hosts = tmp_path / "hosts.sh"
    # Horovod gives up the host of a lost process: these are two names of one machine.
    hosts.write_text("#!/bin/sh\necho localhost:1\necho 127.0.0.1:1\n")
    hosts.chmod(0o755)
    options = ["--min-np", "1", "--max-np", "2"]
    options += ["--host-discovery-script", str(hosts)]
    (tmp_path / "codes").mkdir()
    args = flags_of(tiny, tmp_path / "out")
    return cluster.run(
        2,
        [str(rank), "12", fault, "run_classifier_mgpu.py", *args],
        program=FAULTY,
        options=options,
        env={"CODES": str(tmp_path / "codes")},
    )


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "rank", "codes", "reason"),
    [
        ("frozen", 1, [LOST, KILLED], "no sign of life"),
        ("frozen", 0, [KILLED, LOST], "no sign of life"),
        ("hangs", 0, [LOST, LOST], "see --peer_timeout"),
        ("hangs inside", 1, [LOST, LOST], "none is behind the others"),
        ("hangs in evaluation", 1, [LOST, LOST], "this one is the furthest behind"),
        ("killed in evaluation", 0, [KILLED, LOST], "connection broke"),
        ("NaN", 1, [3, 3], "diverged"),
        ("crash", 1, [LOST, 1], "RuntimeError: a fault of the test"),
        ("crash", 0, [1, LOST], "RuntimeError: a fault of the test"),
        ("no memory", 1, [LOST, 4], "--gradient_accumulation_steps=2"),
        ("full disk", 0, [2, LOST], "No space left"),
        ("SIGTERM", 0, [75, 75], "is saved"),
    ],
)
def test_the_table_of_faults(
    tiny, tmp_path, cluster, straight, fault, rank, codes, reason
):
    """All end with their codes; the same command ends what was begun.

    A run that diverged is not begun again: it would diverge again.
    """
    more = {"do_eval": True, "eval_batch_size": 2} if "eval" in fault else {}
    args = flags_of(tiny, tmp_path / "out", peer_timeout=30, **more)
    end, actual, output = run_with(cluster, fault, rank, 12, args, tmp_path)
    assert actual == codes and reason in end["reason"], (end, actual, output)
    assert end["code"] == (codes[rank] if codes[rank] > 0 else LOST)
    assert sum("Traceback" in line for line in output) == (fault == "crash")
    assert cluster.run(2, flags_of(tiny, tmp_path / "out"))[0] == 0
    assert_same_run(straight, tmp_path / "out")


@pytest.mark.faults
def test_all_go_back_where_one_diverged(tiny, tmp_path, cluster):
    out = tmp_path / "out"
    args = flags_of(tiny, out, on_divergence="rollback")
    wrapped = ["1", "12", "NaN once", "run_classifier_mgpu.py", *args]
    (tmp_path / "codes").mkdir()
    env = {"CODES": str(tmp_path / "codes")}
    code, output = cluster.run(2, wrapped, program=FAULTY, env=env)
    assert code == 0, output
    (back,) = json.loads((out / "rollbacks.json").read_text())["rollbacks"]
    assert back["diverged"] == 13 and 0 < back["step"] <= 12
    name = "bert/embeddings/LayerNorm/gamma"
    assert back["seen"].endswith(f"first in the weights ({name}) of tower 1")


@pytest.mark.faults
def test_memory_that_one_lacks_in_evaluation(tiny, tmp_path, cluster, script):
    """All of them go on, with half as many rows."""
    flags = {"do_train": True, "num_train_epochs": 1, "do_eval": True}
    flags |= {"do_predict": True, "eval_batch_size": 2}
    code, _, err = script(tiny.flags(tmp_path / "one", n_gpus=2, **flags))
    assert code == 0, err
    args = tiny.flags(tmp_path / "out", **flags)
    wrapped = ["1", "0", "no memory in evaluation", "run_classifier_mgpu.py", *args]
    (tmp_path / "codes").mkdir()
    env = {"CODES": str(tmp_path / "codes")}
    code, out = cluster.run(2, wrapped, program=FAULTY, env=env)
    assert code == 0 and "continuing with batches of 1 rows per tower" in out, out
    for name in ("eval_results.txt", "predict.txt"):
        actual, wanted = (
            re.split(r"[ \t\n]", (tmp_path / folder / name).read_text())
            for folder in ("out", "one")
        )
        for one, other in zip(actual, wanted, strict=True):
            assert one == other or float(one) == pytest.approx(float(other), rel=1e-5)


@pytest.mark.faults
def test_a_frozen_process_of_an_elastic_job(tiny, tmp_path, cluster, straight):
    """Nobody but the others would end it, and horovodrun waits for it."""
    code, out = elastic(tiny, tmp_path, cluster, "frozen", 1)
    assert code == 0, out
    assert "no sign of life for 30 s: continuing without it" in out
    assert_same_run(straight, tmp_path / "out")


@pytest.mark.faults
@pytest.mark.parametrize(
    "changed",
    [
        {"init_checkpoint": "nowhere"},
        {"data_dir": "nowhere"},
        {"cpu_devices": 2},
        {"plan": True},
        {"allreduce_dtype": "bfloat16"},
        {"predict_file": "nowhere", "do_predict": True},
    ],
)
def test_mistakes_end_all(tiny, tmp_path, cluster, changed):
    """Of all processes: whoever has not seen it yet is ended by the first that has."""
    args = flags_of(tiny, tmp_path / "out", **changed)
    end, actual, output = run_with(cluster, "none", 0, 0, args, tmp_path)
    assert end["code"] == 2 and 2 in actual, (end, actual, output)
    assert {*actual} <= {2, LOST}, output
    assert not any("Traceback" in line for line in output)


def processes_of(launcher):
    """rank -> pid, of the processes that a horovodrun has started.

    They stand for forks, which end with them.
    """
    actual = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, KeyError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            lines = (folder / "environ").read_bytes().split(b"\0")
            values = dict(line.split(b"=", 1) for line in lines if b"=" in line)
            ours = values.get(b"FAULT_RUN") == launcher.tag.encode()
            if ours and b"run_classifier_mgpu.py" in b" ".join(command[:5]):
                actual[int(values[b"HOROVOD_RANK"])] = int(folder.name)
    return actual


@pytest.mark.faults
def test_forty_kills_at_any_moment(tiny, tmp_path, cluster, straight):
    """Of any process, at its start, in a step, in a save: nothing is lost.

    Each run is begun again after each kill, with the same command, until it is done;
    then its tensors are those of the run that nothing happened to.
    """
    began = time.monotonic()
    assert cluster.run(2, flags_of(tiny, tmp_path / "first"))[0] == 0
    usual = time.monotonic() - began
    rng = random.Random(5)
    kills = done = 0
    while kills < KILLS:
        output = tmp_path / f"out{done}"
        args = flags_of(tiny, output, save_checkpoints_steps=2)
        while True:
            tag = f"{done}-{kills}"
            started = cluster.start(2, args, env={"FAULT_RUN": tag})
            started.tag = tag
            began, after = time.monotonic(), rng.uniform(0, 1.2 * usual)
            hit = False
            while started.poll() is None:
                due = not hit and kills < KILLS and time.monotonic() - began > after
                if ranks := processes_of(started) if due else {}:
                    victim = rng.choice(sorted(ranks.values()))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                        hit = True
                time.sleep(0.05)
            started.stdout.close()
            if started.returncode == 0:
                break
            assert hit, "ended without a fault"
            kills += 1
        done += 1
        assert_same_run(straight, output)
    print(f"{kills} kills in {done} runs")
