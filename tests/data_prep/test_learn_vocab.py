"""data_prep/learn_vocab.py: the vocabulary, the report, mistakes and stops."""

import functools
import gzip
import importlib.util
import re
import shlex
import shutil

import pytest

from bert_mgpu.cli import create_pretraining_data
from bert_mgpu.cli import learn_vocab as script
from bert_mgpu.config import base, parsing
from bert_mgpu.config.learn_vocab import LearnVocabConfig
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import terminal
from bert_mgpu.data_prep import learn_vocab, vocabulary
from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.learnt_vocab import WordCounts
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.domain import flat
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_text") is None,
    reason="tensorflow-text is not here: pip install -e '.[tf_text]'",
)
FEW = functools.partial(WordCounts, most=200)
NAMES = ("guide.md", "guide.zh.md", "pretraining.md")


@pytest.fixture
def corpus(tmp_path):
    for name in NAMES:
        shutil.copy(ROOT / "docs" / name, tmp_path)
    return tmp_path


@pytest.fixture
def call(corpus, capfd):
    """call(flags) -> (exit code, stdout, stderr); small texts repeat little."""

    def run(**changed):
        values = {"input_file": f"{corpus}/*.md", "vocab_file": corpus / "new.txt"}
        values["min_count"] = 2
        flags = [f"--{k}={v}" for k, v in (values | changed).items() if v is not None]
        code = script.main(["learn_vocab.py", *flags])
        return code, *capfd.readouterr()

    return run


def made(corpus, name="new.txt"):
    return (corpus / name).read_text("utf-8").split("\n")[:-1]


@pytest.mark.parametrize("size", [800, 1100])
def test_a_vocabulary_has_the_size_and_no_token_twice(corpus, call, size):
    code, out, err = call(vocab_size=size)
    assert (code, err) == (0, "")
    tokens = made(corpus)
    assert len(tokens) == len({*tokens}) == size
    assert tokens[0] == "[PAD]" and tokens[100:104] == [
        *("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]
    assert f"vocabulary: {size:,} tokens, uncased: 99 free places" in out
    assert "no more pieces" not in out
    lines = [line for line in out.splitlines() if str(corpus) not in line]
    assert len(lines) > 15 and max(map(terminal.width, lines)) <= 80


def test_the_report_is_as_wide_as_the_terminal(corpus, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.chdir(corpus)
    # A name that would not fit; commands stay in one piece.
    code, out, _ = call(vocab_size=9000, vocab_file="long_" * 20)
    assert code == 0 and "no more pieces" in flat(out)
    lines = [line for line in out.splitlines() if "  python " not in line]
    lines = [line for line in lines if not line.startswith("    --")]
    assert len(lines) > 15 and max(map(terminal.width, lines)) <= 44


def test_a_text_without_enough_pieces_gives_fewer_tokens(corpus, call):
    code, out, _ = call(vocab_size=9000)
    tokens = made(corpus)
    assert code == 0 and 1000 < len(tokens) < 9000
    assert "occur 2 times or more: more text, or a smaller --min_count, may" in flat(
        out
    )
    assert f'"vocab_size": {len(tokens)}' in out
    # All of these occur twice.
    assert {"training", "##ing", "checkpoint", "模", "，"} <= {*tokens}


def test_the_report_counts_what_the_new_vocabulary_makes_of_the_text(corpus, call):
    code, out, _ = call(vocab_size=1200)
    tokenizer = Tokenizer(corpus / "new.txt")
    lines = [line for name in NAMES for line in (corpus / name).open(encoding="utf-8")]
    lines = [line for line in lines if line.strip()]
    tokens = tokenizer.batch_ids(lines).values
    words = [word for line in lines for word, _ in tokenizer.words(line)]
    unknown = int((tokens == tokenizer.unk_id).sum())
    characters = sum(map(len, words))
    assert code == 0 and f"text: {len(lines):,} lines of 3 files" in out
    for name, value in (
        ("words (a CJK character is one)", f"{len(words):,}"),
        ("tokens", f"{len(tokens):,}"),
        ("tokens a character", f"{len(tokens) / characters:.3f}"),
        ("[UNK]", f"{unknown:,}"),
    ):
        assert re.search(rf"^{re.escape(name)} +{value}$", out, re.M), name
    assert 0 < unknown < len(tokens) / 20


def test_the_same_text_gives_the_same_bytes(corpus, call, monkeypatch):
    """Also where it has too many words, and which are forgotten follows its order."""
    monkeypatch.setattr(learn_vocab, "WordCounts", FEW)
    in_blocks = functools.partial(vocab_coverage.in_blocks, characters=2000)
    monkeypatch.setattr(vocabulary.vocab_coverage, "in_blocks", in_blocks)
    with gzip.open(corpus / "guide.gz", "wb") as packed:
        packed.write((corpus / "guide.md").read_bytes())
    orders = {
        "a": [corpus / name for name in NAMES],
        "b": [corpus / name for name in reversed(NAMES)],
        "c": [corpus / "guide.gz", *(corpus / name for name in NAMES[1:])],
    }
    for name, paths in orders.items():
        files = ",".join(map(str, paths))
        code, _, err = call(input_file=files, vocab_file=corpus / name, vocab_size=900)
        assert (code, err) == (0, "")
    assert len({(corpus / name).read_bytes() for name in orders}) == 1


def test_cased_and_without_free_rows(corpus, call):
    code, out, _ = call(do_lower_case="false", unused=0, vocab_size=1300)
    tokens = made(corpus)
    assert code == 0 and "cased: 0 free places" in out
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert "B" in tokens and "##B" in tokens and "The" in tokens
    assert out.count("--do_lower_case=false") == 2


def test_text_without_letters(corpus, call):
    (corpus / "zh.txt").write_text("中文字，\n" * 5, encoding="utf-8")
    assert call(input_file=corpus / "zh.txt", unused=0)[0] == 0
    assert made(corpus)[5:] == [*"中字文，"]


@pytest.mark.parametrize("vocab", ["new.txt", "it's new.txt"])
def test_the_next_commands_are_those_that_work(corpus, call, monkeypatch, vocab):
    monkeypatch.chdir(corpus)
    code, out, _ = call(vocab_size=1000, input_file="*.md", vocab_file=vocab)
    assert code == 0
    lines = out[out.index("  python ") :].replace("\\\n", " ").splitlines()
    (_, name, *records), (_, train, *training) = map(shlex.split, lines)
    assert (ROOT / name).is_file() and (ROOT / train).is_file()
    assert create_pretraining_data.main(["", *records, "--workers=1"]) == 0
    assert (corpus / "corpus.tfrecord").stat().st_size > 1000
    settings, _ = parsing.parse(["", *training], "", PretrainConfig)
    assert settings.do_train and settings.input_file == "corpus.tfrecord"
    assert settings.vocab_file == vocab and settings.init_checkpoint is None


MISTAKES = {
    "no corpus": ({"input_file": None}, "--input_file is missing"),
    "no output": ({"vocab_file": None}, "--vocab_file is missing"),
    "corpus not there": (
        {"input_file": "{root}/guied.md"},
        "guied.md: no such file: {root} holds guide.md",
    ),
    "glob without files": (
        {"input_file": "{root}/*.xyz"},
        "{root}/*.xyz matches no file",
    ),
    "output exists": (
        {"vocab_file": "{root}/old.txt"},
        "--vocab_file={root}/old.txt: already exists: pass a new name",
    ),
    "over the corpus": (
        {"vocab_file": "{root}/guide.md"},
        "guide.md: is also --input_file, and would be overwritten",
    ),
    "no such folder": (
        {"vocab_file": "{root}/no/new.txt"},
        "{root}/no: there is no such folder: pass another name",
    ),
    "output is a folder": ({"vocab_file": "{root}"}, "is a directory: pass the name"),
    "too small": (
        {"vocab_size": 200},
        "--vocab_size=200: 2 characters occur 1 time or more; with ## and the special"
        " tokens they need 1004: pass at least that many, or a larger --min_count",
        {"input_file": "{root}/ab.txt", "min_count": 1, "unused": 995},
    ),
    "size of nothing": ({"vocab_size": 0}, "--vocab_size=0: pass at least 1"),
    "blank corpus": (
        {"input_file": "{root}/blank.txt"},
        "blank.txt: no text in {root}/blank.txt",
    ),
    "all too rare": (
        {"min_count": 1_000_000},
        "--min_count=1000000: no character of the text occurs so often: pass a smaller",
    ),
    "not UTF-8": (
        {"input_file": "{root}/gbk.txt"},
        "gbk.txt:2: not UTF-8 (byte 0xd6 at column 1): convert it",
    ),
    "damaged archive": ({"input_file": "{root}/cut.gz"}, "cut.gz: damaged or cut"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line_and_change_nothing(corpus, call, mistake):
    for name, content in {
        "old.txt": b"kept\n",
        "blank.txt": b" \n\n",
        "ab.txt": b"ab\n",
        "gbk.txt": b"ok\n\xd6\xd0",
        "cut.gz": b"\x1f\x8b\x08",
    }.items():
        (corpus / name).write_bytes(content)
    before = {path: path.read_bytes() for path in corpus.iterdir()}
    flags, message, *more = mistake
    changed = flags | (more[0] if more else {})
    code, out, err = call(
        **{k: v and str(v).format(root=corpus) for k, v in changed.items()}
    )
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message.format(root=corpus) in err
    assert {path: path.read_bytes() for path in corpus.iterdir()} == before


def test_the_vocabulary_is_not_text_of_the_next_command(corpus, call):
    code, out, err = call(vocab_file=corpus / "v.md")
    assert (code, out) == (2, "") and not (corpus / "v.md").exists()
    assert "*.md would read it as text the next time: pass another name" in err


def test_without_the_package_nothing_is_counted(corpus, call, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, err = call()
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "needs the package tensorflow-text, which is not installed: pip" in err
    assert not (corpus / "new.txt").exists()


def test_ctrl_c_writes_nothing(corpus, call, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(learn_vocab.word_pieces, "learn", interrupt)
    code, _, err = call()
    assert code == 130
    assert err == "stopped: by Ctrl-C: each file is written whole, or not at all\n"
    assert not (corpus / "new.txt").exists()


def test_words_that_were_forgotten_are_said(corpus, call, monkeypatch):
    monkeypatch.setattr(learn_vocab, "WordCounts", FEW)
    code, out, _ = call(vocab_size=900)
    assert code == 0 and "There were too many different words to count" in flat(out)


def test_help_names_every_flag(capfd):
    assert script.main(["learn_vocab.py", "--help"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("Learns a WordPiece vocabulary from raw text")
    for field in base.fields(LearnVocabConfig):
        assert f"  --{field.name}=" in out
    assert max(map(len, out.splitlines())) <= 80
