"""What runs leave, compared: files by their hashes, checkpoints by their bits."""

import hashlib
import shutil

import numpy as np

# What a run leaves even if it refuses to work: its lock and TensorFlow's log.
TRACES = {".lock", "tensorflow.log", "cache"}


def tree(folder):
    """Hash of every file, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in TRACES
    }


def assert_refused(result, *fragments, code=2):
    """One line is the error; it holds the fragments in this order."""
    got, out, err = result
    lines = err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert got == code, err
    assert errors == lines[-1:], err
    assert "Traceback" not in err and out == ""
    rest = errors[0]
    for fragment in fragments:
        assert fragment in rest, errors[0]
        rest = rest.partition(fragment)[2]


def keep_only(output_dir, step):
    """As if the run had been stopped after this step, whose checkpoint is there."""
    for file in output_dir.glob("model.ckpt-*"):
        if not file.name.startswith(f"model.ckpt-{step}."):
            file.unlink()


def resume_halfway(start, flags, tmp_path, step, **changed):
    """Runs, and resumes a copy that has nothing saved after this step.

    start: as `inside`; flags: gives those of an output_dir. -> the output_dir of the
    run and of its copy, and what the copy said.
    """
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    saving = {"save_checkpoints_steps": step, "keep_checkpoint_max": 0}
    code, _, err = start(flags(whole, **changed, **saving))
    assert code == 0, err
    shutil.copytree(whole, copy)
    keep_only(copy, step)
    code, _, err = start(flags(copy, **changed))
    assert code == 0 and f"model.ckpt-{step}: step {step} with its weights" in err, err
    return whole, copy, err


def assert_same_run(one, other, leave_out=()):
    """The newest checkpoints hold the same tensors, bit for bit."""
    from bert_mgpu.checkpoints import google_read

    wanted, actual = google_read.read(one), google_read.read(other)
    assert wanted.keys() == actual.keys()
    for name, value in wanted.items():
        assert name in leave_out or np.array_equal(actual[name], value), name
