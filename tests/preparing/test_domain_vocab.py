"""data_prep/domain_vocab.py: the report, the vocabulary it writes, its mistakes."""

import gzip
import hashlib
import importlib.util
import json
import lzma
import os
import pathlib
import re
import subprocess
import sys

import pytest

from bert_mgpu.preparing import domain_vocabulary
from bert_mgpu.text import display
from bert_mgpu.text.tokenization import Tokenizer

SCRIPT = pathlib.Path(__file__).parents[2] / "data_prep" / "domain_vocab.py"
# Every \r is dropped, and a token may look like a line end to others.
VOCAB = (
    "[PAD]\n[unused1]\n[UNK]\r\n[CLS]\n[unused2]\n[SEP]\n中\n国\na\n##a\nb\n##b\nab\n"
    "##\rc\n\u2028\n##abab"
).encode()
CONFIG = {"vocab_size": 16, "hidden_size": 8, "num_attention_heads": 2, "extra": [1]}
# Of the words, cc is unknown (6 times), ☃ too (5), and abb is ab ##b (5 times).
LINES = ["中国 ab cc ☃ abb"] * 5 + ["", "  ", "cc 中 ababab"]
BEFORE = {
    "words (a CJK character is one)": 33,
    "tokens": 39,  # abb and ababab are two each
    "[UNK]": 11,
    "words in several pieces": 6,
    "words that are cut worse than before": 0,
}


class Files:
    """A corpus, a vocabulary and a config, and a run over them."""

    def __init__(self, root):
        self.root = root
        self.corpus, self.vocab = root / "corpus.txt", root / "vocab.txt"
        self.config, self.out = root / "config.json", root / "new.txt"
        self.corpus.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        self.vocab.write_bytes(VOCAB)
        self.config.write_text(json.dumps(CONFIG))

    def flags(self, **changed):
        values = {"input_file": self.corpus, "vocab_file": self.vocab, **changed}
        return [f"--{k}={v}" for k, v in values.items() if v is not None]

    def append(self, **changed):
        """Flags of a run that appends."""
        return self.flags(
            **{
                "output_vocab_file": self.out,
                "place": "append",
                "bert_config_file": self.config,
                "output_config_file": self.root / "new.json",
                **changed,
            }
        )

    def tree(self):
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.root.iterdir()
            if path.is_file()
        }


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def call(capsys):
    """call(flags) -> (exit code, stdout, stderr)."""

    def run(args):
        code = domain_vocabulary.main(["domain_vocab.py", *args], "usage")
        return code, *capsys.readouterr()

    return run


def values_of(text, column=0):
    """Numbers of the table of rates, by their names in BEFORE."""
    found = {}
    for name in BEFORE:
        if match := re.search(rf"^{re.escape(name)}:?((?: +[\d,]+)+) *$", text, re.M):
            found[name] = int(match[1].split()[column].replace(",", ""))
    return found


def flat(text):
    """Without line ends, which depend on the lengths of names."""
    return " ".join(text.split())


def test_the_report(files, call):
    before = files.tree()
    code, out, err = call(files.flags())
    assert (code, err) == (0, "")
    values = values_of(out)
    assert values == {name: BEFORE[name] for name in values} and len(values) == 4
    assert "text: 6 lines of 1 file" in out
    assert "16 tokens, uncased, 2 free places" in out
    assert "characters that become [UNK]: 1 different, 5 times\n☃ U+2603  " in out
    assert out.count(f"{files.corpus.name}:1\n") == 2  # ☃ and cc
    assert "words that become [UNK]: 1 different, 6 times" in out
    assert "words in several pieces: 2 different, 6 times" in out
    assert f"abb{'5':>29}  ab ##b" in out
    assert "3 words occur 5 times or more and could become tokens: cc, ☃, abb." in flat(
        out
    )
    assert files.tree() == before
    assert max(display.width(line) for line in out.splitlines()) <= 80


def test_free_places_are_filled_and_the_new_vocabulary_is_used(files, call):
    code, out, err = call(files.flags(output_vocab_file=files.out))
    assert (code, err) == (0, "")
    old, new = Tokenizer(files.vocab), Tokenizer(files.out)
    assert new.tokens == [*old.tokens[:1], "cc", *old.tokens[2:4], "☃", *old.tokens[5:]]
    assert files.vocab.read_bytes() == VOCAB
    rest = VOCAB.replace(b"\r", b"").replace(b"[unused1]", b"cc")
    rest = rest.replace(b"[unused2]", "☃".encode())
    assert files.out.read_bytes() == rest + b"\n"
    assert "2 new tokens: cc, ☃" in flat(out) and "1 more found no free place" in flat(
        out
    )
    table = out.partition("The same text")[2]
    assert values_of(table) == BEFORE
    assert values_of(table, -1) == {**BEFORE, "[UNK]": 0}
    assert new.tokenize("CC ☃ abb") == ["cc", "☃", "ab", "##b"]


def test_appended_tokens_and_the_config(files, call):
    code, out, _ = call(files.append())
    assert code == 0
    old, new = Tokenizer(files.vocab), Tokenizer(files.out)
    assert new.tokens == [*old.tokens, "cc", "☃", "abb"]
    config = json.loads((files.root / "new.json").read_text())
    assert config == {**CONFIG, "vocab_size": 19}
    assert json.loads(files.config.read_text()) == CONFIG
    assert "new.json: vocab_size 19" in out
    table = out.partition("The same text")[2]
    assert values_of(table, -1)["words in several pieces"] == 1
    assert f"--vocab_file={files.out} --bert_config_file={files.root}/new.json" in out


def test_a_padded_model_keeps_its_size_while_it_has_rows(files, call):
    files.config.write_text(json.dumps({**CONFIG, "vocab_size": 18}))
    for most, size in ((1, 18), (2, 18), (3, 19)):
        assert call(files.append(add=most))[0] == 0
        written = json.loads((files.root / "new.json").read_text())
        assert written["vocab_size"] == size


def test_add_and_min_count_bound_the_choice(files, call):
    tokens = Tokenizer(files.vocab).tokens
    for flags, new in (
        ({"add": 1}, ["cc"]),
        ({"min_count": 6}, ["cc"]),
        ({"min_count": 7}, []),
        ({"min_count": 1, "add": 4}, ["cc", "☃", "abb", "ababab"]),
    ):
        assert call(files.append(**flags))[0] == 0
        assert Tokenizer(files.out).tokens == [*tokens, *new]
        # The same command again replaces what it has written.


def test_words_that_are_cut_worse_are_said(files, call):
    """With aba a token, ababc begins with it, and ##bc is none."""
    files.vocab.write_bytes(b"[UNK]\n[CLS]\n[SEP]\n[unused0]\nab\n##abc\n##a\n")
    files.corpus.write_text("aba aba aba aba aba ababc\n")
    code, out, _ = call(files.flags(output_vocab_file=files.out))
    assert code == 0 and Tokenizer(files.out).tokens[3] == "aba"
    message = "words that are cut worse than before: 1, such as ababc ([UNK])"
    assert message in flat(out)
    table = out.partition("The same text")[2]
    assert [values_of(table, column)["[UNK]"] for column in (0, 1)] == [0, 1]


def test_cased_vocabularies(files, call):
    files.corpus.write_text("Ça Ça Ça Ça Ça\n")
    for lower, token in (("true", "ca"), ("false", "Ça")):
        flags = files.flags(output_vocab_file=files.out, do_lower_case=lower)
        assert call(flags)[0] == 0
        assert Tokenizer(files.out).tokens[1] == token


def test_globs_and_packed_files(files, call):
    text = files.corpus.read_bytes()
    with gzip.open(files.root / "b.gz", "wb") as packed:
        packed.write(text)
    with lzma.open(files.root / "c.xz", "wb") as packed:
        packed.write(text)
    names = f"{files.root}/co*.txt,{files.root}/[bc].?z"
    code, out, _ = call(files.flags(input_file=names))
    assert code == 0 and "text: 18 lines of 3 files" in out
    assert values_of(out)["tokens"] == 3 * BEFORE["tokens"]


def test_a_sample_is_seeded(files, call):
    files.corpus.write_text("".join(f"{'a ' * n}\n" for n in range(1, 200)))

    def words(**flags):
        code, out, _ = call(files.flags(max_lines=5, **flags))
        assert code == 0 and "text: 5 lines (a sample with seed" in out
        return values_of(out)["words (a CJK character is one)"]

    assert words() == words(random_seed=12345)
    assert len({words(random_seed=seed) for seed in range(5)}) > 1
    assert 15 < words() < 985  # neither the first nor the last lines
    code, out, _ = call(files.flags(max_lines=1000))
    assert values_of(out)["words (a CJK character is one)"] == sum(range(200))


@pytest.mark.skipif(
    importlib.util.find_spec("rjieba") is None, reason="the package rjieba is not here"
)
def test_chinese_words(files, call):
    files.corpus.write_text("我们爱北京，北京好。\n" * 2, encoding="utf-8")
    code, out, _ = call(files.flags(segmenter="jieba"))
    assert code == 0
    assert "words of several CJK characters: 2 different, 6 times" in out
    assert f"北京{'4':>28}  " in out
    assert "0 of them come out as one token" in out


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
        "--output_vocab_file is missing",
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
        "vocab.txt: is --vocab_file too, which must stay",
    ),
    "over the corpus": (
        lambda f: f.flags(output_vocab_file=f.corpus),
        "corpus.txt: is --input_file too, which must stay",
    ),
    "over the config": (
        lambda f: f.append(output_config_file=f.config),
        "config.json: is --bert_config_file too, which must stay",
    ),
    "both outputs in one": (
        lambda f: f.append(output_config_file=f.out),
        "new.txt: is --output_vocab_file too, which must stay",
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
    assert code == 2 and "is --vocab_file too" in err
    assert files.vocab.read_bytes() == files.out.read_bytes() == VOCAB


@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_full_disk_leaves_the_old_file(files, call, monkeypatch, step):
    files.out.write_text("old")
    before = files.tree()

    def full(self, *_):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, step, full)
    code, _, err = call(files.flags(output_vocab_file=files.out))
    monkeypatch.undo()
    assert code == 2
    assert err == f"error: {files.out}: cannot write it: No space left on device\n"
    assert files.tree() == before


def test_ctrl_c_writes_nothing(files, call, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(domain_vocabulary.vocabulary, "count", interrupt)
    before = files.tree()
    code, _, err = call(files.flags(output_vocab_file=files.out))
    assert code == 130 and err == "stopped: by Ctrl-C: nothing is written\n"
    assert files.tree() == before


def test_the_script_runs_from_anywhere_without_tensorflow(files):
    """A module that cannot be imported stands in TensorFlow's place."""
    (files.root / "tensorflow.py").write_text("raise SystemExit('imported')\n")
    result = subprocess.run(
        [sys.executable, SCRIPT, *files.flags(output_vocab_file="new.txt")],
        cwd=files.root,
        env={**os.environ, "PYTHONPATH": str(files.root)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert "2 new tokens: cc, ☃" in flat(result.stdout)
    assert Tokenizer(files.out).tokens[1] == "cc"


def test_help_names_every_flag(call):
    code, out, _ = call(["--help"])
    assert code == 0 and out.startswith("usage\n")
    for field in domain_vocabulary.DomainVocabConfig.__dataclass_fields__:
        assert field == "given" or f"  --{field}=" in out
    assert max(map(len, out.splitlines())) <= 80
