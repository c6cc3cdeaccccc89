"""Flags, what is reported, and every mistake."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from bert_mgpu.config import parsing
from bert_mgpu.config.base import fields
from bert_mgpu.config.preparation import PreparationConfig
from bert_mgpu.data_prep import corpus
from bert_mgpu.data_prep import prepare as preparing
from tests.support.paths import ROOT
from tests.support.preparation import FEATURES, LENGTH, parse, sentences

SCRIPT = ROOT / "data_prep" / "create_pretraining_data.py"
# Flags and defaults of google-research/bert's create_pretraining_data.py at eedf571.
GOOGLE = {
    "input_file": None,
    "output_file": None,
    "vocab_file": None,
    "do_lower_case": True,
    "do_whole_word_mask": False,
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "random_seed": 12345,
    "dupe_factor": 10,
    "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
}
BERT_AD = {"root_data_path": None, "slice_name": "slice_1"}


def test_flags_of_google_and_bert_ad_keep_their_defaults():
    run, notes = parsing.parse([""], "", PreparationConfig)
    expected = GOOGLE | BERT_AD
    assert {name: getattr(run, name) for name in expected} == expected
    assert notes == []


def test_help():
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", SCRIPT, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0 and "tensorflow" not in shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for field in fields(PreparationConfig):
        assert f"\n  --{field.name}=" in shown.stdout
    assert "python data_prep/create_pretraining_data.py --input_file=" in shown.stdout


def test_the_report_says_what_was_counted(prepare):
    _, err = prepare(dupe_factor=3)
    rows = parse("out.tfrecord", FEATURES)
    count, tokens = len(rows["input_ids"]), rows["input_mask"].sum()
    total = sum(map(len, sentences()))
    lines = pathlib.Path("text").read_text().count("\n")
    assert f"out.tfrecord: {count} rows" in err
    for wanted in (
        f"{lines} lines",
        f"sentences: {len(sentences())}, 0.00% duplicates",
        "documents: 60, 0 empty ones left out, 0.00% duplicates",
        f"tokens: {total}, 0.00% of them [UNK]",
        f"rows: {count} of {tokens / count:.1f} tokens",
        f"{1 - tokens / count / LENGTH:.1%} padding at {LENGTH}",
        f"masked: {rows['masked_lm_weights'].sum() / tokens:.2%} of the",
        f"next_sentence_labels: {rows['next_sentence_labels'].mean():.1%} are 1",
    ):
        assert wanted in err, wanted
    assert max(map(len, err.splitlines())) <= 80


def test_what_is_cut_and_masks_that_are_too_few_are_told(prepare):
    most = 12
    _, err = prepare(objective="mlm", max_seq_length=most, masked_lm_prob=0.9)
    lost = [len(one) - most + 2 for one in sentences() if len(one) > most - 2]
    share = sum(lost) / sum(map(len, sentences()))
    assert f"cut at --max_seq_length={most}: {len(lost)} rows lose {share:.1%}" in err
    assert "--objective=documents would keep them" in err
    assert "rows beyond 5 tokens get fewer masks" in err
    assert ": pass --max_predictions_per_seq=11" in err
    assert max(map(len, err.splitlines())) <= 80
    _, err = prepare(objective="documents", max_seq_length=most)
    assert "cut at" not in err and "fewer masks" not in err


def test_unknown_words_and_duplicates_are_reported(prepare):
    text = "x0y0 nothing x0y1\nx0y2\n\n\n\n"
    pathlib.Path("text").write_text(text * 4)
    _, err = prepare()
    assert "25.00% of them [UNK]" in err
    assert "sentences: 8, 75.00% duplicates" in err
    assert "documents: 4, 8 empty ones left out, 75.00% duplicates" in err


@pytest.mark.parametrize("named", [False, True])
def test_a_cased_vocabulary_is_not_lowered(prepare, work, named):
    """Where its folder says so, by a file or by one of Google's names."""
    folder = work / ("cased_L-12_H-768_A-12" if named else "model")
    folder.mkdir()
    shutil.copy("vocab.txt", folder)
    if not named:
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    code, err = prepare(vocab_file=folder / "vocab.txt")
    assert code == 2 and f"{folder} is cased: pass --do_lower_case=false" in err
    assert not pathlib.Path("out.tfrecord").exists()
    assert prepare(vocab_file=folder / "vocab.txt", do_lower_case=False)[0] == 0


BAD_FLAGS = [
    ({"input_file": None}, "--input_file is missing"),
    ({"output_file": None}, "--output_file is missing"),
    ({"vocab_file": None}, "--vocab_file is missing"),
    ({"vocab_file": "no"}, "no: no such file"),
    ({"input_file": "no"}, "no: no such file"),
    ({"input_file": "no*"}, "no* matches no file"),
    (
        {"output_file": "text"},
        "--output_file=text: is also --input_file, and would be overwritten",
    ),
    ({"output_file": "vocab.txt"}, "--output_file=vocab.txt: is also --vocab_file"),
    (
        {"segmenter": "jieba", "user_dict": "words", "output_file": "words"},
        "--output_file=words: is also --user_dict",
    ),
    ({"root_data_path": "r", "slice_name": ""}, "--slice_name is empty: pass a name"),
    ({"output_file": "a,b,./a"}, "a: is also --output_file: give each"),
    ({"output_file": "."}, "is a directory"),
    ({"output_file": ","}, "names no file"),
    ({"output_file": "/proc/no/a"}, "cannot write /proc/no/a: No such", "pass"),
    ({"max_seq_length": 4}, "--max_seq_length=4: --objective=nsp needs at least 5"),
    ({"max_seq_length": 2}, "--max_seq_length=2: pass at least 3"),
    ({"max_seq_length": 7, "objective": "infill"}, "needs at least 8"),
    ({"objective": "nps"}, "--objective=nps: pass one of nsp, mlm"),
    ({"masked_lm_prob": 0}, "--masked_lm_prob=0.0: pass at least"),
    ({"dupe_factor": 0}, "--dupe_factor=0: pass at least 1"),
    ({"dupe_faktor": 1}, "--dupe_faktor: there is no such flag: did you mean --dupe"),
    ({"user_dict": "text"}, "--user_dict is for jieba: pass --segmenter=jieba"),
    ({"objective": "infill", "masking": "span"}, "--masking: ", "leave the flag out"),
    (
        {"objective": "infill", "masked_lm_prob": 0.3},
        "--masked_lm_prob: --objective=infill masks a span",
    ),
    ({"slice_name": "x"}, "--slice_name does nothing without"),
    (
        {"objective": "mlm", "short_seq_prob": 0.2},
        "--short_seq_prob: --objective=mlm makes each line a row: leave",
    ),
]


@pytest.mark.parametrize(
    ("changed", "fragments"), [(f, m) for f, *m in BAD_FLAGS], ids=str
)
def test_bad_flags(refuse, changed, fragments):
    refuse(*fragments, **changed)


BAD_TEXTS = [
    (b"", "text: no text"),
    (b"\n \n\n", "text: no text"),
    (b"a\n\n\xff\n", "text:3: not UTF-8"),
    (b"a\0\n", "text:1: NUL byte"),
    (b"a\n" + b"x" * 1_000_001, "text:2: more than 1000000 characters", "split it"),
    ("\u200b\n\ufeff\n".encode(), "1 documents, but none can be made into a row"),
]


@pytest.mark.parametrize(
    ("content", "fragments", "workers"),
    [(content, fragments, 1) for content, *fragments in BAD_TEXTS]
    + [(content, fragments, 2) for content, *fragments in BAD_TEXTS[2:4]],
)
def test_bad_texts(refuse, work, content, fragments, workers):
    (work / "text").write_bytes(content)
    (work / "out.tfrecord").write_text("an earlier output")
    refuse(*fragments, workers=workers)


BAD_PAIRS = [
    (["2\tx\ta\tb"], "text:1: the flag '2' in the first column: write 0 or 1"),
    (["1\tx\ta\tb", "", "\u4e00\tx\ta\tb"], "text:3: the flag '\u4e00'"),
    (["", "1\tx\ta", "1"], "text:2: every line has fewer than 4 columns"),
    (["1\tx\tx0y0\tx1y0"], "1 documents, but none can be made into a row"),
]


@pytest.mark.parametrize(("lines", "fragment"), BAD_PAIRS)
def test_bad_pairs(refuse, work, lines, fragment):
    (work / "text").write_text("\n".join(lines), encoding="utf-8")
    refuse(fragment, objective="infill")


def test_too_few_documents_for_random_sentences_are_told(prepare, work, monkeypatch):
    """Of the first block that has too few, not of one that only ends in a document."""
    cut = corpus.Cut(window=10, least=300, most=400)
    monkeypatch.setattr(preparing, "Cut", lambda *_: cut)
    (work / "text").write_text("x0y0\nx0y1\n\n" * 10)
    (work / "long").write_text("x0y0 x0y1\n" * 150)
    _, err = prepare(input_file="text,long")
    told = "sentence comes from only 1 document (0 kB), not from 10000: put blank"
    assert told in " ".join(err.split())


def test_text_that_does_not_suit_is_told(prepare, work):
    text = work / "text"
    text.write_text("x0y0 x0y1\nx0y2 x0y3\n" * 9)
    assert "note: one document: put blank lines" in prepare(max_seq_length=8)[1]
    text.write_text("x0y0 x0y1\n\nx0y2 x0y3\n\n" * 9)
    assert "note: every document has one sentence" in prepare()[1]
    text.write_text("x0y0 x0y1\nx0y2 x0y3\n\n" * 90)
    assert "note: " not in prepare()[1]
    # Rows of real next sentences may all be left out: documents have several, still.
    text.write_text("x0y0y1y2 x0y0y1y2\nx0y0y1y2 x0y0y1y2\n\n" * 2 + "x0y0\n\n" * 9)
    said = prepare(do_whole_word_mask=True)[1]
    assert "rows in which no word fits" in said and "note: every" not in said
