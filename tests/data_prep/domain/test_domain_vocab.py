"""data_prep/domain_vocab.py: the report and the vocabulary it writes."""

import gzip
import importlib.util
import json
import lzma
import os
import subprocess
import sys

import pytest

from bert_mgpu.config import domain_vocab as domain_vocab_lib
from bert_mgpu.config.base import fields
from bert_mgpu.core import terminal
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.domain import BEFORE, CONFIG, SCRIPT, VOCAB, flat, values_of
from tests.support.runs import assert_refused


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
    assert max(terminal.width(line) for line in out.splitlines()) <= 80


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
        code, out, _ = call(flags)
        assert code == 0 and ("--do_lower_case=false" in out) == (lower == "false")
        assert Tokenizer(files.out).tokens[1] == token


def test_the_casing_that_the_folder_names(files, call):
    """Of a vocabulary that is cased; that of --do_lower_case's default is not."""
    (files.root / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert_refused(call(files.flags()), f"{files.root} is cased: pass", "=false")
    assert call(files.flags(do_lower_case="false"))[0] == 0


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
    assert code == 0 and out.startswith("Reports how well a vocabulary fits")
    for field in fields(domain_vocab_lib.DomainVocabConfig):
        assert f"  --{field.name}=" in out
    assert max(map(len, out.splitlines())) <= 80
