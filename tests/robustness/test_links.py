"""Links in output_dir: nothing outside of it is written, whatever they lead to."""

import shutil

import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import files
from tests.support.damage import everything, put
from tests.support.runs import assert_refused, tree

SECRET = "of somebody else\n"
FILES = [
    *("predict.txt", "test_results.tsv", "predictions.jsonl", "eval_results.txt"),
    *("metrics.jsonl", "evaluations.jsonl", "baseline.json", "report.html"),
    *("run.json", "label_list.txt", "bert_config.json", "vocab.txt", "checkpoint"),
    *("exit.json", "tensorflow.log", "model.ckpt-3.index"),
    *("model.ckpt-6.index", "model.ckpt-6.data-00000-of-00001"),
]
FOLDERS = ["cache", "best", "report", "predicted", ".saving", "seed-42"]


@pytest.fixture
def elsewhere(work):
    folder = work.root / "elsewhere"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    return folder


def test_files_take_the_place_of_links(work, watched, elsewhere):
    """All of them in one run, which trains, evaluates, predicts and reports."""
    out = work.root / "new"
    out.mkdir()
    for name in FILES:
        (elsewhere / name).write_text(SECRET)
        (out / name).symlink_to(elsewhere / name)
    for index in out.glob("*.index"):  # else they are checkpoints, all of them damaged
        index.unlink()
    flags = {"do_eval": True, "do_predict": True, "eval_steps": 3, "report": True}
    code, _, err = watched(out, save_checkpoints_steps=3, **flags)
    assert code == 0, err
    written = set(FILES) - {"exit.json"}
    links = [name for name in written if (out / name).is_symlink()]
    assert links == [] and all((out / name).is_file() for name in written)


def test_a_run_goes_on_through_links_and_writes_beside_them(
    resumed, watched, elsewhere
):
    """Its checkpoints may lie elsewhere: they are read there, and left alone."""
    out = resumed.root / "out"
    for path in [*out.glob("model.ckpt-*"), out / "metrics.jsonl"]:
        path.rename(elsewhere / path.name)
        path.symlink_to(elsewhere / path.name)
    flags = {"num_train_epochs": 2, "keep_checkpoint_max": 1}
    code, _, err = watched(**flags)
    assert code == 0, err
    assert f"resuming  from {out / 'model.ckpt-6'}" in err
    assert [path.name for path in out.glob("*.index")] == ["model.ckpt-12.index"]
    assert google_read.read(elsewhere / "model.ckpt-6")["global_step"] == 6


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("target", ["elsewhere", "nowhere", "out"])
def test_folders_that_are_links_are_refused(work, refused, elsewhere, name, target):
    (work.root / "out" / name).symlink_to(work.root / target)
    refused(f"{work.root / 'out' / name}: a link, and a run does not write through")


@pytest.mark.parametrize("place", ["best/.saving", "seed-42/cache", "predicted/a.tsv"])
def test_folders_below_that_are_links_are_refused(work, refused, elsewhere, place):
    path = work.root / "out" / place
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    refused(f"{path}: a link, and a run does not write through")


def test_files_below_take_the_place_of_links(work, watched, elsewhere):
    paths = [work.root / "out" / n for n in ("best/vocab.txt", "report/curves.png")]
    for path in paths:
        path.parent.mkdir()
        path.symlink_to(elsewhere / "file")
    code, _, err = watched(do_eval=True, eval_steps=3, report=True)
    assert code == 0, err
    assert all(path.is_file() and not path.is_symlink() for path in paths)


@pytest.mark.parametrize("name", ["cache", "best", "report"])
def test_files_in_the_place_of_folders_are_refused(work, refused, name):
    (work.root / "out" / name).write_text(SECRET)
    refused(f"{work.root / 'out' / name}: not a folder: remove it")


def test_a_lock_that_is_a_link_is_refused(work, refused, elsewhere):
    (work.root / "out" / ".lock").symlink_to(elsewhere / "file")
    refused(f"{work.root / 'out' / '.lock'}: a link: remove it")


@pytest.mark.parametrize("kind", ["pipe", "folder", "link loop", "dangling link"])
@pytest.mark.parametrize("name", [".lock", "tensorflow.log"])
def test_what_stands_in_the_way(work, inside, elsewhere, kind, name):
    """Neither waited for nor written through; a lock may be a pipe, as it has no
    content."""
    out = work.root / "out"
    put(out / name, kind)
    before = everything(work.root, out), tree(out)
    result = inside(work.flags(out, do_train=True, init_checkpoint="/no"))
    path = out / name
    fine = kind == "pipe" or (name == "tensorflow.log" and kind != "folder")
    message = "/no: no such file" if fine else "cannot write there"
    if name == ".lock" and "link" in kind:
        message = f"{path}: a link: remove it"
    assert_refused(result, message)
    assert (everything(work.root, out), tree(out)) == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "link loop", "device"])
def test_files_that_are_written(tmp_path, kind):
    path = tmp_path / "predict.txt"
    put(path, kind)
    if kind == "folder":
        with pytest.raises(files.UserError, match="cannot write it: Is a directory"):
            files.write_text(path, "1\n")
        assert [*tmp_path.iterdir()] == [path] and path.is_dir()
        return
    files.write_text(path, "1\n")
    assert path.read_text() == "1\n" and not path.is_symlink()


def test_output_dir_and_cache_dir_may_be_links(work, inside, elsewhere):
    """These are named by the user."""
    shutil.rmtree(work.root / "out")
    (work.root / "real").mkdir()
    (work.root / "out").symlink_to(work.root / "real")
    (work.root / "cache").symlink_to(elsewhere)
    flags = {"do_train": True, "cache_dir": work.root / "cache"}
    code, _, err = inside(work.flags(work.root / "out", **flags))
    assert code == 0, err
    assert (elsewhere / "file").read_text() == SECRET
    assert len([*elsewhere.glob("*.safetensors")]) > 0
    assert (work.root / "real" / "model.ckpt-6.index").is_file()


# A process of its own.


def test_a_real_run_writes_nothing_elsewhere(work, script, elsewhere):
    out = work.root / "new"
    out.mkdir()
    for name in FILES:
        if not name.startswith("model.ckpt"):
            (out / name).symlink_to(elsewhere / "file")
    before = everything(work.root, out)
    code, _, err = script(work.flags(out, do_train=True, do_eval=True, do_predict=True))
    assert code == 0, err
    assert "Traceback" not in err
    assert everything(work.root, out) == before
    assert not (out / "predict.txt").is_symlink()
