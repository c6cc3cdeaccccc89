"""One process goes wrong: all end, say why, and the same command goes on exactly."""

import json
import pathlib
import re
import signal
import time

import pytest

from bert_mgpu.errors import Lost
from bert_mgpu.train import checkpoint
from tests.run.conftest import assert_same_run

FAULTY = pathlib.Path(__file__).with_name("faulty.py")
BOUND = 90  # seconds until everything has ended, the start of it included
FLAGS = {"do_train": True, "num_train_epochs": 6, "save_checkpoints_steps": 5}


def flags_of(tiny, output, **changed):
    return tiny.flags(output, **{**FLAGS, **changed})


def run_with(cluster, fault, rank, step, args, folder, processes=2):
    """(exit.json, exit code of each rank, lines of the processes)."""
    began = time.monotonic()
    wrapped = [str(rank), str(step), fault, "run_classifier_mgpu.py", *args]
    (folder / "codes").mkdir()
    env = {"CODES": str(folder / "codes")}
    code, out = cluster.run(processes, wrapped, program=FAULTY, env=env)
    assert code == 1 and time.monotonic() - began < BOUND, out
    end = json.loads((folder / "out" / "exit.json").read_text())
    codes = {int(f.name): int(f.read_text()) for f in (folder / "codes").iterdir()}
    said = [line for line in out.splitlines() if re.match(r"\[\d+\]<", line)]
    return end, [codes[rank] for rank in range(processes)], said


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory, script):
    """The run that nothing happens to, by one process."""
    output = tmp_path_factory.mktemp("straight") / "out"
    code, _, err = script(flags_of(tiny, output, n_gpus=2))
    assert code == 0, err
    return output


LOST = Lost.exit_code
KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("fault", "rank", "codes", "reason"),
    [
        ("killed", 1, [LOST, KILLED], "connection broke"),
        ("killed", 0, [KILLED, LOST], "connection broke"),
        ("hangs", 1, [LOST, LOST], "see --peer_timeout"),
    ],
)
def test_a_lost_process(tiny, tmp_path, cluster, straight, fault, rank, codes, reason):
    args = flags_of(tiny, tmp_path / "out", peer_timeout=20)
    end, found, said = run_with(cluster, fault, rank, 12, args, tmp_path)
    assert (end["code"], end["rank"], end["step"]) == (LOST, rank, 12), said
    assert reason in end["reason"] and found == codes, said
    errors = [line for line in said if "error:" in line]
    assert f"process {rank} was lost at step 12" in errors[0] and len(errors) == 1
    assert not any("Traceback" in line for line in said)
    assert cluster.run(2, flags_of(tiny, tmp_path / "out"))[0] == 0
    assert_same_run(straight, tmp_path / "out")
    assert not (tmp_path / "out" / "exit.json").exists()


def test_sigterm_at_one_stops_all_after_the_same_step(
    tiny, tmp_path, cluster, straight
):
    """One checkpoint, 75 from each; one process with as many towers goes on exactly."""
    args = flags_of(tiny, tmp_path / "out", save_checkpoints_steps=1000)
    end, found, said = run_with(cluster, "SIGTERM", 1, 7, args, tmp_path)
    assert found == [75, 75] and end["code"] == 75, said
    (step,) = checkpoint.saved_steps(tmp_path / "out")
    assert 7 < step < 11 and any(f"stopped: step {step} of 18" in x for x in said)
    assert run_alone(flags_of(tiny, tmp_path / "out", n_gpus=2)) == 0
    assert_same_run(straight, tmp_path / "out")


def run_alone(args):
    from bert_mgpu import run

    return run.finetune(["run_classifier_mgpu.py", *args], "usage")


def test_the_others_go_on_without_a_lost_process(tiny, tmp_path, cluster, straight):
    """Elastic: whoever is left has its towers, from the newest checkpoint on."""
    hosts = tmp_path / "hosts.sh"
    # Horovod gives up the host of a lost process: these are two names of one machine.
    hosts.write_text("#!/bin/sh\necho localhost:1\necho 127.0.0.1:1\n")
    hosts.chmod(0o755)
    elastic = ["--min-np", "1", "--max-np", "2"]
    elastic += ["--host-discovery-script", str(hosts)]
    (tmp_path / "codes").mkdir()
    args = flags_of(tiny, tmp_path / "out")
    code, out = cluster.run(
        2,
        ["1", "12", "killed", "run_classifier_mgpu.py", *args],
        program=FAULTY,
        options=elastic,
        env={"CODES": str(tmp_path / "codes")},
    )
    assert code == 0, out
    assert "process 1 was lost at step 12" in out and "going on without it" in out
    assert "2 towers of 1 process" in out or "2 towers on 1 CPU device" in out
    assert_same_run(straight, tmp_path / "out")
