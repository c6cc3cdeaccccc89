"""data_prep/domain_vocab.py: mistakes and stops, which change nothing."""

import os
import pathlib

import pytest

from bert_mgpu.data_prep import domain_vocab
from tests.support.domain import VOCAB


def make_folder(path):
    path.mkdir()
    return path


MISTAKES = {
    "no corpus": (lambda f: f.flags(input_file=None), "--input_file is missing"),
    "no vocabulary": (lambda f: f.flags(vocab_file=None), "--vocab_file is missing"),
    "corpus not there": (
        lambda f: f.flags(input_file=f.root / "corpsu.txt"),
        "corpsu.txt: no such file: {root} holds corpus.txt",
    ),
    "add without output": (
        lambda f: f.flags(add=3),
        "--output_vocab_file is missing (--add needs it)",
    ),
    "append without config": (
        lambda f: f.append(bert_config_file=None),
        "--bert_config_file is missing (--place=append needs it)",
    ),
    "config without append": (
        lambda f: f.append(place="unused"),
        "--bert_config_file: --place=unused keeps the size of the model: leave",
    ),
    "unknown place": (lambda f: f.flags(place="first"), "pass one of unused, append"),
    "add nothing": (lambda f: f.flags(add=0), "--add=0: pass at least 1"),
    "over the vocabulary": (
        lambda f: f.flags(output_vocab_file=f.vocab),
        "vocab.txt: is also --vocab_file, and would be overwritten",
    ),
    "over the corpus": (
        lambda f: f.flags(output_vocab_file=f.corpus),
        "corpus.txt: is also --input_file, and would be overwritten",
    ),
    "over the config": (
        lambda f: f.append(output_config_file=f.config),
        "config.json: is also --bert_config_file, and would be overwritten",
    ),
    "both outputs in one": (
        lambda f: f.append(output_config_file=f.out),
        "new.txt: is also --output_vocab_file: give each output its own name",
    ),
    "output is a folder": (
        lambda f: f.flags(output_vocab_file=f.root),
        "{root}: is a directory: pass the name of a file",
    ),
    "no such folder": (
        lambda f: f.flags(output_vocab_file=f.root / "no" / "new.txt"),
        "new.txt: {root}/no: there is no such folder: pass another name",
    ),
    "other model's config": (
        lambda f: f.append(bert_config_file=write(f, "c.json", '{"vocab_size": 15}')),
        "c.json: vocab_size is 15, but {root}/vocab.txt has 16 tokens: pass",
    ),
    "no free place": (
        lambda f: f.flags(
            vocab_file=write(f, "full.txt", "[UNK]\n[CLS]\n[SEP]\n"),
            output_vocab_file=f.out,
        ),
        "full.txt: has no places [unused1], [unused2] and so on: pass --place=append",
    ),
    "blank corpus": (
        lambda f: f.flags(input_file=write(f, "blank.txt", " \n\n")),
        "blank.txt: no text in {root}/blank.txt",
    ),
    "not UTF-8": (
        lambda f: f.flags(input_file=write(f, "gbk.txt", "ok\n中", "gbk")),
        "gbk.txt:2: not UTF-8 (byte 0xd6 at column 1): convert it",
    ),
    "damaged archive": (
        lambda f: f.flags(input_file=write(f, "cut.gz", "\x1f\x8b\x08", "latin-1")),
        "cut.gz: damaged or cut",
    ),
}


def write(files, name, text, encoding="utf-8"):
    (files.root / name).write_bytes(text.encode(encoding))
    return files.root / name


@pytest.mark.parametrize(("flags", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line_and_change_nothing(files, call, flags, message):
    args = flags(files)
    before = files.tree()
    code, out, err = call(args)
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message.format(root=files.root) in err
    assert files.tree() == before


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_link_to_the_vocabulary_is_the_vocabulary(files, call, link):
    link(files.vocab, files.out)
    code, _, err = call(files.flags(output_vocab_file=files.out))
    assert code == 2 and "is also --vocab_file" in err
    assert files.vocab.read_bytes() == files.out.read_bytes() == VOCAB


def test_a_full_disk_leaves_the_old_file(files, call, monkeypatch):
    files.out.write_text("old")
    before = files.tree()

    def full(self, *_):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "replace", full)
    code, _, err = call(files.flags(output_vocab_file=files.out))
    monkeypatch.undo()
    assert code == 2
    assert err == f"error: {files.out}: cannot write it: No space left on device\n"
    assert files.tree() == before


def test_ctrl_c_writes_nothing(files, call, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(domain_vocab.vocabulary, "count", interrupt)
    before = files.tree()
    code, _, err = call(files.flags(output_vocab_file=files.out))
    assert code == 130
    assert err == "stopped: by Ctrl-C: each file is written whole, or not at all\n"
    assert files.tree() == before
