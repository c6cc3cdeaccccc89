"""The scripts of examples/ around horovodrun; other programs are stood in for."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT

CLUSTER, SLURM = ROOT / "examples/cluster.sh", ROOT / "examples/slurm.sbatch"
OPTIONS = ["-np", "2", "-H", "localhost:2"]
END = {"code": 5, "rank": 1, "step": 12, "reason": 'it "broke":\nkilled'}
# What the run does is told by variables: END is its exit.json, STATUS horovodrun's
# exit code. WAITS: it goes on until SIGTERM, which it needs a moment for, or 20 s.
HOROVODRUN = """#!/bin/sh
printf '%s\\n' "$@" > "$NOTES/arguments"
finish() {
  if [ -n "$END" ]; then
    printf '%s\\n' "$END" > "$OUT/.exit"
    mv "$OUT/.exit" "$OUT/exit.json"
  fi
  exit "$STATUS"
}
[ -n "$WAITS" ] || finish
trap 'trap "" TERM; echo got >> "$NOTES/signals"; sleep 0.2; finish' TERM
echo > "$NOTES/ready"
for _ in $(seq 400); do sleep 0.05; done
"""
SCONTROL = """#!/bin/sh
case "$*" in
  "show hostnames node[1-2]") printf 'node1\\nnode2\\n' ;;
  "requeue 7") echo 7 >> "$NOTES/requeued" ;;
  *) exit 1 ;;
esac
"""


class Scripts:
    """Runs a script with the programs that stand in, in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.out, self.bin = folder, folder / "out", folder / "bin"
        self.out.mkdir()
        self.bin.mkdir()
        self.write("horovodrun", HOROVODRUN)
        self.write("scontrol", SCONTROL)
        self.command = ["python", "a script.py", f"--output_dir={self.out}", "--x=*"]

    def write(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, *command, end=None, status=0, waits="", **env):
        # Behind the stand-ins comes the python3 of this venv.
        path = [str(self.bin), os.path.dirname(sys.executable), "/usr/bin", "/bin"]
        own = {"END": json.dumps(end) if end else "", "STATUS": str(status)}
        own |= {"NOTES": str(self.folder), "OUT": str(self.out), "WAITS": waits}
        return subprocess.Popen(
            [*map(str, command)],
            env={"PATH": os.pathsep.join(path)} | own | env,
            text=True,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            # What runs the tests may ignore it, and a shell then cannot heed it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *command, **options):
        """(exit code, standard error)."""
        started = self.start(*command, **options)
        _, err = started.communicate(timeout=240)
        return started.returncode, err

    def cluster(self, **options):
        return self.run(CLUSTER, *OPTIONS, "--", *self.command, **options)

    def slurm(self, how=None, **options):
        how = how or self.run
        env = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
        env |= {"SLURM_SUBMIT_DIR": str(ROOT), "SLURM_NTASKS_PER_NODE": "3"}
        # Slurm runs a copy.
        copy = shutil.copy(SLURM, self.folder / "slurm_script")
        return how("bash", copy, *self.command, **(env | options))

    def stop(self, started, number, times=1):
        """Sends a signal once horovodrun is there; (exit code, standard error)."""
        while not (self.folder / "ready").exists():
            assert started.poll() is None
            time.sleep(0.01)
        for _ in range(times):
            started.send_signal(number)
            time.sleep(0.05)
        _, err = started.communicate(timeout=240)
        return started.returncode, err

    def lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def scripts(tmp_path):
    return Scripts(tmp_path)


# -- examples/cluster.sh -----------------------------------------------------------


def test_arguments_pass_as_they_are(scripts):
    assert scripts.cluster() == (0, "")
    assert scripts.lines("arguments") == [*OPTIONS, *scripts.command]


@pytest.mark.parametrize("code", [1, 2, 5, 75, 130])
def test_the_code_of_the_run_is_that_of_the_job(scripts, code):
    got, err = scripts.cluster(end={**END, "code": code}, status=1)
    assert got == code
    assert err == f'exit code {code}: process 1 at step 12: it "broke": killed\n'


def test_where_all_hang_no_process_is_named(scripts):
    got, err = scripts.cluster(end={**END, "rank": None}, status=1)
    assert got == 5 and err.startswith("exit code 5: all processes at step 12: ")


@pytest.mark.parametrize("status", [0, 1, 143])
def test_the_exit_json_of_an_earlier_run_says_nothing(scripts, status):
    (scripts.out / "exit.json").write_text(json.dumps(END))
    got, err = scripts.cluster(status=status)
    assert got == status
    said = err.replace(str(scripts.out), "")
    assert err.count("\n") == (status != 0) and "12" not in said


def test_a_new_exit_json_may_have_the_words_of_the_old_one(scripts):
    (scripts.out / "exit.json").write_text(json.dumps(END))
    assert scripts.cluster(end=END, status=1)[0] == 5


def test_a_removed_or_damaged_exit_json_says_nothing(scripts):
    file = scripts.out / "exit.json"
    file.write_text(json.dumps(END))
    remove = '#!/bin/sh\nrm "$OUT/exit.json"\nexit 1\n'
    scripts.write("horovodrun", remove)
    assert scripts.cluster()[0] == 1
    scripts.write("horovodrun", '#!/bin/sh\necho "{" > "$OUT/exit.json"\nexit 1\n')
    got, err = scripts.cluster()
    assert got == 1 and err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 3])
def test_signals_are_passed_on_and_the_end_awaited(scripts, number, times):
    end = {**END, "code": 75}
    call = [CLUSTER, *OPTIONS, "--", *scripts.command]
    started = scripts.start(*call, end=end, status=1, waits="yes")
    got, err = scripts.stop(started, number, times)
    assert got == 75 and err.startswith("exit code 75: "), err
    assert scripts.lines("signals") == ["got"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*OPTIONS, "python", "x.py", "--output_dir=out"], "two dashes"),
        (["--", "python", "x.py", "--output_dir=out"], "-np"),
        ([*OPTIONS, "--"], "no command"),
        ([*OPTIONS, "--", "python", "x.py"], "--output_dir"),
    ],
)
def test_mistakes_are_told_in_a_line(scripts, arguments, said):
    got, err = scripts.run(CLUSTER, *arguments)
    assert got == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert said in err and not scripts.lines("arguments")


def test_horovodrun_is_looked_for_in_the_venv(scripts):
    """Beside the script, where no other one is in the PATH."""
    examples, venv = scripts.folder / "examples", scripts.folder / ".venv/bin"
    examples.mkdir()
    shutil.copy(CLUSTER, examples)
    (scripts.bin / "horovodrun").unlink()
    call = [examples / "cluster.sh", *OPTIONS, "--", *scripts.command]
    assert scripts.run(*call, PATH="/usr/bin:/bin") == (
        2,
        "error: no horovodrun: make horovod\n",
    )
    venv.mkdir(parents=True)
    scripts.bin = venv
    scripts.write("horovodrun", HOROVODRUN)
    assert scripts.run(*call, PATH="/usr/bin:/bin") == (0, "")
    assert scripts.lines("arguments") == [*OPTIONS, *scripts.command]


# -- examples/slurm.sbatch ---------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "slots"),
    [
        ({}, 3),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "0"}, 3),
        ({"SLURM_NTASKS_PER_NODE": "1"}, 1),
    ],
)
def test_each_gpu_or_task_of_a_node_is_a_process(scripts, env, slots):
    assert scripts.slurm(**env)[0] == 0
    arguments = scripts.lines("arguments")
    where = ["-np", str(2 * slots), "-H", f"node1:{slots},node2:{slots}"]
    assert arguments[:4] == where
    assert arguments[-4:] == scripts.command
    assert not scripts.lines("requeued")


@pytest.mark.parametrize(
    ("code", "again"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (75, 1), (130, 0)]
)
def test_what_can_go_on_is_queued_anew(scripts, code, again):
    assert scripts.slurm(end={**END, "code": code}, status=1)[0] == code
    assert len(scripts.lines("requeued")) == again


def test_ten_lost_processes_in_sequence_end_the_job(scripts):
    lost = scripts.out / "lost_processes"

    def run(code):
        assert scripts.slurm(end={**END, "code": code}, status=1)[0] == code
        return len(scripts.lines("requeued"))

    assert run(5) == 1 and lost.read_text() == "1\n"
    assert run(5) == 2 and lost.read_text() == "2\n"
    assert run(75) == 3 and not lost.exists()
    lost.write_text("8\n")
    assert run(5) == 4
    assert run(5) == 4 and lost.read_text() == "10\n"
    assert run(5) == 4


@pytest.mark.parametrize("end", [{**END, "code": 75}, None])
def test_a_preempted_job_is_queued_anew(scripts, end):
    """Even one whose processes did not know of each other yet: no exit.json."""
    started = scripts.slurm(scripts.start, end=end, status=1, waits="yes")
    assert scripts.stop(started, signal.SIGTERM, times=2)[0] == 75
    assert len(scripts.lines("requeued")) == 1
    assert scripts.lines("signals") == ["got"]


def test_mistakes_in_a_job_are_told(scripts):
    scripts.command = ["python", "x.py"]
    got, err = scripts.slurm()
    assert got == 2 and "--output_dir" in err
    got, err = scripts.slurm(SLURM_SUBMIT_DIR=str(scripts.folder))
    assert got == 2 and "project's folder" in err
    assert not scripts.lines("arguments")
