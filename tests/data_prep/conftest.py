"""A small text with its vocabulary, and runs that make records of it."""

import functools
import pathlib

import pytest

from bert_mgpu.cli import create_pretraining_data
from bert_mgpu.data_prep import corpus, parts
from bert_mgpu.data_prep import prepare as prepare_lib
from tests.reference import instance_cases as cases
from tests.support.preparation import arguments


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with a vocabulary and a text of 60 documents; we are in it."""
    monkeypatch.chdir(tmp_path)
    tokens = [*cases.vocabulary(), *(f"##y{i}" for i in range(400))]
    pathlib.Path("vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    pathlib.Path("text").write_text(
        "\n".join("".join(" ".join(s) + "\n" for s in d) for d in cases.documents())
    )
    return tmp_path


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of eight documents: some ten of them, each repeat a part of its own."""
    monkeypatch.setattr(parts, "_PART_BYTES", 1)
    cut = functools.partial(corpus.Cut, least=1)
    monkeypatch.setattr(prepare_lib, "Cut", lambda each_line, window: cut(each_line, 8))


@pytest.fixture
def prepare(capfd, work, logical_cpus):
    """prepare(flags) -> (exit code, standard error), in this process."""

    def call(**changed):
        capfd.readouterr()
        code = create_pretraining_data.main(["", *arguments(**changed)])
        out, err = capfd.readouterr()
        assert out == ""
        return code, err

    return call


@pytest.fixture
def refuse(prepare, work):
    """refuse(*fragments, flags) asserts: one line, exit code 2, no file changed."""

    def check(*fragments, **changed):
        before = {p: p.read_bytes() for p in work.rglob("*") if p.is_file()}
        code, err = prepare(**changed)
        last = err.splitlines()[-1]
        assert code == 2 and last.startswith("error: "), err
        assert "Traceback" not in err and err.count("error: ") == 1
        for fragment in fragments:
            assert fragment in last, last
            last = last.partition(fragment)[2]
        after = {p: p.read_bytes() for p in work.rglob("*") if p.is_file()}
        assert after == before

    return check
