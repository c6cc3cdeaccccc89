"""Runs of make_rewrite_data.py, in a folder of their own."""

import pathlib

import pytest

from bert_mgpu.cli import make_rewrite_data
from bert_mgpu.data_prep import ad_files

OUT = "out"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty folder; we are in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(capfd, work):
    """make(flags) -> (exit code, standard error), in this process."""

    def call(**changed):
        capfd.readouterr()
        values = {"input_file": "ads", "output_dir": OUT, "workers": 1, **changed}
        flags = [f"--{k}={v}" for k, v in values.items() if v is not None]
        code = make_rewrite_data.main(["", *flags])
        out, err = capfd.readouterr()
        assert out == ""
        return code, err

    return call


@pytest.fixture
def refuse(make, work):
    """refuse(*fragments, flags): one line, exit code 2, no file is changed."""

    def check(*fragments, **changed):
        before = {p: p.is_file() and p.read_bytes() for p in work.rglob("*")}
        code, err = make(**changed)
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1, err
        assert len(err) < 400
        for fragment in fragments:
            assert fragment in err, err
        after = {p: p.is_file() and p.read_bytes() for p in work.rglob("*")}
        assert after == before

    return check


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(ad_files, "_BLOCK", 600)


@pytest.fixture
def rows(work):
    """rows(file) -> the cells of its lines."""

    def read(name, folder=OUT):
        text = pathlib.Path(folder, name).read_text(encoding="utf-8")
        assert text == "" or text.endswith("\n")
        return [line.split("\t") for line in text.split("\n")[:-1]]

    return read
