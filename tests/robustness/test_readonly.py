"""Folders that may not be written or read, for a user whom permissions concern.

Root may do all; so where these tests run as root, the runs are those of `nobody`, or
of processes of a root that permissions bind.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from bert_mgpu.cli import (
    create_pretraining_data,
    domain_vocab,
    learn_vocab,
    make_rewrite_data,
)
from tests.support.hostile_rows import everything
from tests.support.paths import ROOT
from tests.support.processes import SCRIPT
from tests.support.runs import assert_refused
from tests.support.tiny import Tiny

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
READ, NOTHING = 0o555, 0


@contextlib.contextmanager
def nobody():
    """We are a user without rights, and root again."""
    if not IS_ROOT:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def allow(path, mode):
    """Gives a file, or a folder with all that is in it, to `nobody`, with this mode."""
    inner = [*path.rglob("*")] if path.is_dir() else []
    for one in (path, *inner):
        if IS_ROOT:
            os.chown(one, NOBODY, NOBODY)
    path.chmod(mode)


@pytest.fixture(scope="module")
def finished(trained):
    return trained("own", do_eval=True, eval_steps=6, report=True)


@pytest.fixture
def work(tiny, finished):  # finished: all code is loaded, which nobody may not read
    """A workspace of nobody's own, with an empty output_dir."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="readonly-"))
    for name in ("model", "data"):
        shutil.copytree(tiny.root / name, root / name)
    (root / "out").mkdir()
    allow(root, 0o755)
    yield Tiny(root)
    for path in (root, *(p for p in root.rglob("*") if not p.is_symlink())):
        path.chmod(0o755)
    shutil.rmtree(root)


# name: (what may not be written, its mode, flags, what the error says)
REFUSED = {
    "output_dir": ("out", READ, {}, "--output_dir=", "cannot write there: Permission"),
    "its parent": ("", READ, {"output_dir": "a/b"}, "a/b: cannot write there: Perm"),
    "no way to it": ("out", NOTHING, {}, "cannot write there: Permission denied"),
    "cache": ("out/cache", READ, {}, "cannot write the feature cache", "--cache_dir"),
    "cache_dir": (
        "kept",
        READ,
        {"cache_dir": "kept"},
        "cannot write the feature cache",
    ),
    "export_hf": (
        *("kept", READ, {"export_hf": "kept/x"}),
        *("cannot export", "not a writable folder"),
    ),
    "export_saved_model": (
        *("kept", READ, {"export_saved_model": "kept/x"}),
        *("cannot export", "not a writable folder"),
    ),
    "data_dir": ("data/own", NOTHING, {}, "data/own", "Permission denied"),
    "rows": (
        "data/own/train.tsv",
        NOTHING,
        {},
        "train.tsv: cannot read it: Permission",
    ),
    "task.json": ("data/own/task.json", NOTHING, {}, "task.json: cannot read it: Perm"),
    "vocabulary": ("model/vocab.txt", NOTHING, {}, "vocab.txt: cannot read the vocab"),
    "config": ("model/bert_config.json", NOTHING, {}, "config.json: cannot read it"),
    "weights": (
        "model/bert_model.ckpt.index",
        NOTHING,
        {},
        "bert_model.ckpt",
        "ermiss",
    ),
    "model": ("model", NOTHING, {}, "model", "Permission denied"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_needed_and_denied(work, inside, case):
    name, mode, changed, *fragments = case
    path = work.root / name
    if path.suffix == "" and not path.exists():
        path.mkdir()
    paths = {key: work.root / value for key, value in changed.items()}
    out = paths.pop("output_dir", work.root / "out")
    allow(work.root, 0o755)
    allow(path, mode)
    before = everything(work.root, work.root / "out")
    with nobody():
        result = inside(work.flags(out, "own", do_train=True, **paths))
    assert_refused(result, *fragments)
    assert everything(work.root, work.root / "out") == before
    assert not [*work.root.rglob("model.ckpt*")]


def test_data_and_a_model_that_may_only_be_read(work, inside):
    for folder in (work.data("own"), work.model):
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(READ)
    before = everything(work.root, work.root / "out")
    flags = {"do_train": True, "do_eval": True, "do_predict": True}
    with nobody():
        code, _, err = inside(work.flags(work.root / "out", "own", **flags))
    assert code == 0, err
    assert everything(work.root, work.root / "out") == before
    # What it has copied is its own, to be written again.
    assert os.stat(work.root / "out" / "vocab.txt").st_mode & 0o200


LATER = {  # what a trained run writes: the flags that make it
    "best": {"do_train": True, "eval_steps": 3, "num_train_epochs": 2},
    "report": {"do_train": None, "do_eval": True, "report": True},
}


@pytest.mark.parametrize("name", LATER)
def test_folders_of_a_run(work, finished, inside, name):
    out = work.root / "out"
    unwanted = shutil.ignore_patterns("best", "report")
    shutil.copytree(finished, out, dirs_exist_ok=True, ignore=unwanted)
    (out / name).mkdir()
    allow(out, 0o755)
    allow(out / name, READ)
    with nobody():
        result = inside(work.flags(out, "own", **LATER[name]))
    assert_refused((result[0], "", result[2]), f"{name}", "Permission denied")
    assert [*out.glob("model.ckpt-6*")] and not [*(out / name).iterdir()]
    (out / name).chmod(0o755)
    with nobody():
        code, _, err = inside(work.flags(out, "own", **LATER[name]))
    assert code == 0, err


RECORDS = create_pretraining_data.main
PREPARING = {
    "records": (RECORDS, {"output_file": "kept/a"}, "kept", READ),
    "its folder": (
        RECORDS,
        {"output_file": "kept/b/a"},
        "kept",
        READ,
    ),
    "text": (RECORDS, {"output_file": "a"}, "text", NOTHING),
    "vocabulary": (
        domain_vocab.main,
        {"output_vocab_file": "kept/a"},
        "kept",
        READ,
    ),
    "text of it": (domain_vocab.main, {"output_vocab_file": "a"}, "text", NOTHING),
    "learnt": (learn_vocab.main, {"vocab_file": "kept/a"}, "kept", READ),
    "ads": (make_rewrite_data.main, {"output_dir": "a"}, "text", NOTHING),
    "rows of ads": (make_rewrite_data.main, {"output_dir": "kept/a"}, "kept", READ),
}


def prepared(work, changed, name, mode):
    """Flags of a script whose output, or input, is denied."""
    (work.root / "text").write_text("sun joy\nrain loss\n\n" * 20)
    (work.root / "kept").mkdir()
    words = (work.model / "vocab.txt").read_text() + "[unused1]\n"
    (work.root / "vocab.txt").write_text(words)
    allow(work.root, 0o755)
    allow(work.root / name, mode)
    values = {"input_file": "text", "vocab_file": "vocab.txt", **changed}
    if "output_dir" in changed:
        del values["vocab_file"]
    args = [f"--{key}={work.root / value}" for key, value in values.items()]
    alone = {"output_vocab_file", "vocab_file"} & changed.keys()
    return args if alone else [*args, "--workers=1"]


@pytest.mark.parametrize("case", PREPARING.values(), ids=PREPARING)
def test_preparing(work, capfd, case):
    main, *rest = case
    args = prepared(work, *rest)
    before = everything(work.root, work.root / "out")
    capfd.readouterr()
    with nobody():
        code = main(["", *args])
    assert_refused((code, *capfd.readouterr()), rest[1])
    after = everything(work.root, work.root / "out")
    assert [*after] == [*before]


# Real processes of this user.


def bound():
    """For a root that starts a program: without what lets it pass by permissions."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "prctl")


def process(program, args):
    done = subprocess.run(
        [sys.executable, program, *args],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        preexec_fn=bound if IS_ROOT else None,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_process_without_rights(work):
    out = work.root / "out"
    out.chmod(READ)
    result = process(SCRIPT, work.flags(out, "own", do_train=True))
    assert_refused(result, f"--output_dir={out}: cannot write there: Permission denied")
    assert not [*out.iterdir()]


def test_a_model_that_cannot_be_written_to_is_read_from_elsewhere(work, finished):
    model, new = work.root / "out" / "model", work.root / "new"
    shutil.copytree(finished, model)
    allow(model, READ)
    new.mkdir()
    new.chmod(0o777)
    text = "--predict_text=sun"
    result = process(SCRIPT, [f"--output_dir={model}", text])
    advice = f"pass another folder, with --init_checkpoint={model}"
    assert_refused(result, f"{model}: cannot write there: Permission denied: {advice}")
    code, out, err = process(
        SCRIPT, [f"--init_checkpoint={model}", f"--output_dir={new}", text]
    )
    assert code == 0 and out.startswith(("yes", "no")), err


def test_a_process_that_prepares_without_rights(work):
    args = prepared(work, {"output_file": "kept/a"}, "kept", READ)
    script = ROOT / "data_prep" / "create_pretraining_data.py"
    assert_refused(process(script, args), "kept/a", "Permission denied")
    assert not [*(work.root / "kept").iterdir()]
