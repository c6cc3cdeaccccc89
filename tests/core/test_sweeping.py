"""What killed runs and earlier predictions left, and what is not ours to remove."""

import os
import pathlib
import time

import pytest

from bert_mgpu.core import files, sweeping

HOUR = 3600


def put(path, age=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (time.time() - age,) * 2)
    return path


def names(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )


@pytest.fixture
def temporary(tmp_path):
    """temporary(name) -> the name that `replacing` gives a file while it is written."""

    def name_of(name):
        with files.replacing(tmp_path / "other" / name) as path:
            (tmp_path / "other").mkdir(exist_ok=True)
            path.touch()
            return pathlib.Path(path).name

    return name_of


@pytest.mark.parametrize("own_cache", [True, False])
def test_temporary_files_of_killed_runs_go(tmp_path, temporary, own_cache):
    out = tmp_path / "out"
    for folder in (out, out / "cache", out / "cache" / "predicted"):
        put(folder / temporary("predictions.jsonl"), 1.1 * HOUR)
    put(out / temporary("predict.txt"), 0.9 * HOUR)  # another run may be writing it
    mine = [".notes.tmp", ".a.1-0123.tmp", "a.1-01234567.tmp", ".a.x-01234567.tmp"]
    for name in (*mine, ".lock", "predict.txt"):
        put(out / name, 99 * HOUR)
    (out / ".folder.1-01234567.tmp").mkdir()
    os.symlink(out / "predict.txt", out / ".link.1-01234567.tmp")
    before = names(out)
    sweeping.sweep(out, own_cache=own_cache)
    gone = {*before} - {*names(out)}
    assert len(gone) == (3 if own_cache else 1)
    assert all("predictions.jsonl" in name for name in gone)
    assert os.path.lexists(out / ".link.1-01234567.tmp")


@pytest.mark.parametrize("own_cache", [True, False])
def test_of_predicted_files_the_newest_stay(tmp_path, own_cache):
    cache = tmp_path / "cache"
    for number in range(12):
        put(cache / "predicted" / f"own-test-{number}.safetensors", number * HOUR)
        put(cache / f"own-train-{number}.safetensors", 99 * HOUR)
    sweeping.sweep(tmp_path, own_cache=own_cache)
    kept = {*names(cache / "predicted")}
    count = 8 if own_cache else 12
    assert kept == {f"own-test-{number}.safetensors" for number in range(count)}
    assert len(names(cache)) == 12 + count


def test_a_new_folder_has_none(tmp_path):
    sweeping.sweep(tmp_path / "new", own_cache=True)
    assert not (tmp_path / "new").exists()
