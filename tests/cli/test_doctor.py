"""What the doctor reads, what it says is lacking, and that it always ends well."""

import json
import os
import re
import subprocess
import sys

import pytest

from bert_mgpu.cli.doctor import environment, hardware, horovod_probe
from tests.support.paths import ROOT

BUILT = horovod_probe.Installed(
    "0.28.1", "2.21.0", ("gloo", "NCCL"), patched=True, stamp=""
)
CARD = hardware.Gpu("NVIDIA H200", 143771, "570.86.15")
WHOLE = environment.Facts(
    tensorflow="2.21.0",
    gpus=[CARD, CARD],
    seen={"gpus": 2, "cuda": "12.5.1", "cudnn": "9"},
    shared=(1 << 30, 1 << 30),
    horovod=BUILT,
    horovodrun="/venv/bin/horovodrun",
    ssh="/usr/bin/ssh",
    open_files=1024,
)


def doctor_process(*flags, **options):
    return subprocess.run(
        [sys.executable, "-m", "bert_mgpu", "doctor", *flags],
        cwd=ROOT,
        text=True,
        capture_output=True,
        **options,
    )


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("", []),
        ("NVIDIA H200, 143771, 570.86.15\n" * 2, [CARD, CARD]),
        ("NVIDIA GB10, [N/A], 580.95.05\n", [("NVIDIA GB10", 0, "580.95.05")]),
        ("A card, or two, 81920, 550.1\n", [("A card, or two", 81920, "550.1")]),
        ("No devices were found\n", []),
    ],
)
def test_cards_of_nvidia_smi(text, cards):
    assert hardware.gpus_of(text) == cards


def test_the_pinned_tensorflow_is_the_one_that_horovod_is_built_for():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pin = hardware.pinned(lines)
    assert pin and pin.startswith(horovod_probe.TENSORFLOW + ".")


def test_a_whole_machine_lacks_nothing():
    assert environment.problems(WHOLE) == []
    assert environment.lines(WHOLE)[-1] == "- nothing"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"horovod": None},
            "Horovod is not installed: bert_mgpu install_horovod",
        ),
        (
            {"horovod": BUILT._replace(tensorflow="")},
            "built without TensorFlow: bert_mgpu",
        ),
        ({"tensorflow": "2.21.1"}, "built for TensorFlow 2.21.0: bert_mgpu"),
        ({"horovod": BUILT._replace(patched=False)}, "kills processes before they can"),
        ({"horovodrun": None}, "horovodrun is not in PATH"),
        ({"horovod": BUILT._replace(has=("gloo",))}, "Horovod has no NCCL"),
        ({"seen": {"gpus": 0}}, "TensorFlow sees no GPU: pip install "),
        ({"shared": (64 << 20, 0)}, "/dev/shm has 67 MB"),
        ({"ssh": None}, "apt-get install openssh-client"),
        ({"host": "node7"}, "the name node7 does not resolve: add it to /etc/hosts"),
        ({"open_files": 256}, "only 256 open files allowed: ulimit -n 4096"),
        ({"environ": {"HOROVOD_RANK": "0"}}, "HOROVOD_RANK=0 is set"),
        ({"environ": {"HOROVOD_CONTROLLER": "mpi"}}, "HOROVOD_CONTROLLER=mpi, but"),
    ],
)
def test_what_is_lacking_is_one_line(changed, told):
    (line,) = environment.problems(WHOLE._replace(**changed))
    assert told in line and ": " in line


@pytest.mark.parametrize(
    "changed",
    [
        {"horovod": BUILT._replace(has=("gloo",)), "gpus": []},
        {"shared": (64 << 20, 0), "gpus": [CARD]},
        {"open_files": -1},  # unlimited
        {"environ": {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_FUSION_THRESHOLD": "1"}},
        {"seen": None, "nccl": None, "shared": None},  # a probe failed
    ],
)
def test_what_does_no_harm_is_not_told(changed):
    assert environment.problems(WHOLE._replace(**changed)) == []


def test_the_worst_report_fits_a_terminal():
    worst = WHOLE._replace(
        horovod=BUILT._replace(has=(), tensorflow="", patched=False),
        horovodrun=None,
        seen={"gpus": 0, "cuda": None, "cudnn": None},
        shared=(64 << 20, 0),
        ssh=None,
        host="a-node-with-a-rather-long-name.of-a-cluster.example",
        open_files=256,
        gpus=[CARD, CARD._replace(name="NVIDIA RTX PRO 6000 Blackwell Server Edition")],
    )
    narrow = environment.lines(worst, 60)
    assert max(map(len, narrow)) <= 60 and not any(line[-1] == "-" for line in narrow)
    report = environment.lines(worst)
    assert len(report) <= 35 and max(map(len, report)) <= 80
    assert any(
        line.startswith("GPUs        1 x NVIDIA H200, 140.4 GiB") for line in report
    )


@pytest.mark.parametrize(
    ("seen", "told"), [({"gpus": 1}, True), ({"gpus": 0}, False), (None, False)]
)
def test_how_to_measure_a_card_is_told_where_tensorflow_sees_one(seen, told):
    if seen is not None:
        seen |= {"cuda": "12.5.1", "cudnn": "9"}
    lines = environment.lines(WHOLE._replace(seen=seen))
    assert any(line.startswith("measuring   make gpu ") for line in lines) == told


def test_a_probe_that_fails_leaves_the_rest(monkeypatch):
    def broken():
        raise PermissionError("/proc")

    monkeypatch.setattr(environment, "memory_line", broken)
    report = environment.lines(environment.Facts())
    assert "memory      unknown" in report
    assert "- Horovod is not installed: bert_mgpu install_horovod" in report


def test_the_command_ends_well_where_nothing_is_found(tmp_path):
    environ = {"PATH": str(tmp_path), "HOROVOD_SIZE": "2"}
    done = doctor_process(env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "GPUs        none found by nvidia-smi" in done.stdout.splitlines()
    assert "HOROVOD_SIZE=2 is set" in done.stdout and "no ssh" in done.stdout


def test_a_wrong_flag_is_refused():
    done = doctor_process("--self")
    assert done.returncode == 2
    line = "error: unrecognized arguments: --self (see bert_mgpu doctor --help)\n"
    assert done.stderr == line


def test_a_reader_that_leaves_early():
    """doctor | head: the other end of the pipe is closed before it writes."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "bert_mgpu", "doctor"]
    shown = subprocess.Popen(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, err = shown.communicate(timeout=120)
    assert (shown.returncode, err) == (0, b"")


def test_a_full_disk_is_told_in_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "bert_mgpu", "doctor", "--help"]
        for words in (command[:4], [*command[:3], "--help"], command):
            done = subprocess.run(
                words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
            )
            told = "error: cannot write standard output: No space left on device\n"
            assert (done.returncode, done.stderr) == (2, told)


def test_ctrl_c_is_told_in_one_line(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "probe", interrupted)
    assert environment.main([]) == 130
    assert capsys.readouterr().err == "stopped: by Ctrl-C: start it again\n"


def test_it_imports_neither_tensorflow_nor_horovod():
    code = (
        "import sys\nfrom bert_mgpu.cli.doctor import environment, horovod_build\n"
        "print(*sys.modules)"
    )
    names = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert not {"tensorflow", "horovod", "numpy"} & set(names.split())


def plain_task(tmp_path, lines):
    (tmp_path / "train.tsv").write_text("".join(f"{line}\n" for line in lines))
    task = {"train": "train.tsv", "label": 0, "text_a": 1}
    (tmp_path / "task.json").write_text(json.dumps(task))
    return ["data", "--task_name=mine", f"--data_dir={tmp_path}"]


def test_data_without_a_model(tmp_path, capfd):
    """All but what tokens tell."""
    lines = ["no\tsun joy", "yes\t好 日子 x", "no\tsun joy", "yes\tsun joy"] * 9
    assert environment.main(plain_task(tmp_path, lines)) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert re.search(r"^rows +36$", out, re.MULTILINE)
    assert re.search(r"^100 % have at most \(words\) +\d+$", out, re.MULTILINE)
    assert re.search(r"^0 no +18$", out, re.MULTILINE)
    assert "with the text of an earlier row and another label" in out
    assert "pass --init_checkpoint, or\n--vocab_file" in out
    assert "[UNK]" not in out and "truncated at" not in out
    assert "output_dir" not in out


def test_data_of_one_label_is_told(tmp_path, capfd):
    assert environment.main(plain_task(tmp_path, ["no\tsun", "no\train"])) == 0
    out = capfd.readouterr().out
    told = "train.tsv: every row has the label 'no': training would refuse this file"
    assert told in out


def test_an_unclosed_quote_hides_no_other_fault(tmp_path, capfd):
    (tmp_path / "train.csv").write_text('no,sun\n"no,joy\nno\nyes,rain\n')
    task = {"train": "train.csv", "label": 0, "text_a": 1}
    (tmp_path / "task.json").write_text(json.dumps(task))
    code = environment.main(["data", "--task_name=mine", f"--data_dir={tmp_path}"])
    out, err = capfd.readouterr()
    assert code == 2 and "2 faults in rows that cannot be read" in err
    assert "train.csv:2: " in out and "train.csv:3: 1 column" in out


def test_too_many_faults_hide_neither_tables_nor_why_it_ends(tmp_path, capfd):
    (tmp_path / "train.csv").write_text("no,sun\nyes,rain\n" + 'no,"sun\n' * 60)
    task = {"train": "train.csv", "label": 0, "text_a": 1}
    (tmp_path / "task.json").write_text(json.dumps(task))
    code = environment.main(["data", "--task_name=mine", f"--data_dir={tmp_path}"])
    out, err = capfd.readouterr()
    assert code == 2 and "21 faults in rows that cannot be read" in err
    assert re.search(r"^rows +2$", out, re.MULTILINE)
    told = [line for line in out.splitlines() if line.startswith("- ")]
    assert "train.csv:3: " in told[0] and "train.csv:21: " in told[18]
    assert told[19] == "- and 1 more that cannot be read, before this one:"
    assert "train.csv:23: " in told[20] and told[20].endswith("the rest is not read")
