"""Flags and files that are wrong: one line, exit code 2, nothing is written."""

import pathlib

import pytest

GOOD = "一一，二二。三三\n四四，五五。六六\n七七，八八\n"


@pytest.fixture(autouse=True)
def ads(work):
    pathlib.Path("ads").write_text(GOOD, encoding="utf-8")


FILES = {
    "empty": (b"", "ads: no ad"),
    "newlines": (b"\n \n", "ads: no ad"),
    "NUL": (GOOD.encode() + b"a\0b\n", "ads:4: NUL byte at column 2"),
    "no UTF-8": (GOOD.encode() + "广告\n".encode("gbk"), "ads:4: not UTF-8", "--enc"),
    "UTF-16": ("广告\n".encode("utf-16"), "ads:1: not UTF-8 but UTF-16"),
    "1 MB line": (b"a\n" + b"a " * 500_000, "ads:2: an ad of 999999 characters"),
    "17 MB line": (b"a\n" + b"a" * (17 << 20), "ads:2: more than 16777216 bytes"),
    "no delimiter": (b"one\ntwo\n", "ads: no ad gives a row: 2 with fewer"),
    "only delimiters": ("，。！\n，\n".encode(), "no ad gives a row"),
    "slots": ("一，[SLOT]\n".encode(), "1 with [SLOT]"),
    "one ad": ("一，二\n".encode(), "all phrases of --input_file are in this ad"),
    "one ad, often": ("一，二\n".encode() * 9, "all phrases of --input_file"),
    "the same phrases": ("一，二\n二，一\n".encode(), "all phrases of --input_file"),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_files(refuse, case):
    content, *fragments = case
    pathlib.Path("ads").write_bytes(content)
    refuse(*fragments, dev_share=0)


FLAGS = [
    ({"input_file": None}, "--input_file is missing"),
    ({"output_dir": None}, "--output_dir is missing"),
    ({"input_file": "no"}, "no: no such file"),
    ({"input_file": "no*"}, "no* matches no file"),
    ({"ad_column": 3}, "ads:1: 1 column, but column 3"),
    ({"ad_column": ""}, "--ad_column is empty"),
    ({"ad_column": "text"}, "ads:1: no column 'text'"),
    ({"main_column": 1}, "ads:1: 1 column, but column 2"),
    (
        {"ad_column": 0, "main_column": 0},
        "0: no ad holds its main part",
    ),
    ({"encoding": "utf-7"}, "--encoding=utf-7: pass one of"),
    ({"delimiters": ""}, "--delimiters is empty"),
    ({"negatives": ""}, "--negatives=: pass random:N, length:N, near:N"),
    ({"delimiters": "\t"}, "--delimiters"),
    ({"delimiters": ";"}, "no ad gives a row: 3 with fewer than two segments"),
    ({"min_segment": 3}, "no ad gives a row: 3 with no segment"),
    ({"min_segment": 3, "max_segment": 2}, "--max_segment=2: --min_segment=3"),
    ({"negatives": "random"}, "--negatives=random: pass random:N, length:N, near:N"),
    ({"negatives": "near:0"}, "--negatives=near:0: pass"),
    ({"negatives": "far:1"}, "--negatives=far:1: pass"),
    ({"negatives": "near:1001"}, "with N from 1 to 1000"),
    ({"dev_share": 1}, "--dev_share=1.0: pass at most 0.9"),
    ({"bank": "ads"}, "--bank does nothing without --candidates"),
    ({"candidates": 3}, "--bank is missing"),
    ({"candidates": 3, "bank": "no"}, "no: no such file"),
    ({"candidates": 3, "bank": "ads", "dev_share": 0.2}, "--dev_share: --candidates"),
    ({"candidates": 3, "bank": "ads", "hint_column": 0}, "--hint_column: --candidates"),
    ({"output_dir": "ads"}, "ads"),
    ({"output_dir": "/proc/no"}, "/proc/no: cannot write there"),
]


@pytest.mark.parametrize(("flags", "fragment"), FLAGS, ids=str)
def test_flags(refuse, flags, fragment):
    refuse(fragment, **{"dev_share": 0, **flags} if "bank" not in flags else flags)


BANKS = {
    "empty": (b"", "no phrase"),
    "header alone": (
        b"phrase\tcount\tads\tfirst\tmiddle\tlast\tbeside_main\n",
        "no ph",
    ),
    "delimiters": ("一，二\n，\n".encode(), "no phrase"),
    "no UTF-8": ("一\n".encode() + b"\xff\n", "bank:2: not UTF-8"),
}


@pytest.mark.parametrize("case", BANKS.values(), ids=BANKS)
def test_banks(refuse, case):
    content, fragment = case
    pathlib.Path("bank").write_bytes(content)
    refuse(fragment, bank="bank", candidates=2)


def test_an_output_is_no_input(refuse, make, work):
    assert make(dev_share=0)[0] == 0
    refuse("is also --input_file", input_file="out/infill.txt")
    pathlib.Path("out/candidates.txt").write_bytes(pathlib.Path("ads").read_bytes())
    refuse("is also --bank", candidates=2, bank="out/candidates.txt")


def test_a_column_from_the_end_that_a_line_has_not(refuse):
    pathlib.Path("ads").write_text("x\t一一，二二\t3\n三三，四四\n", encoding="utf-8")
    refuse("ads:2: 1 column, but column -2 (from the end) is needed", ad_column=-2)


def test_few_ads_that_are_all_of_the_dev_set(refuse):
    pathlib.Path("ads").write_text("一一，二二\n三三，四四\n", encoding="utf-8")
    said = "all ads that give rows are of the dev set, 2 of 2: pass more ads"
    refuse(said, dev_share=0.9, random_seed=3)


def test_an_empty_column_of_ads(refuse):
    pathlib.Path("ads").write_text("x\t一一，二二\t\n\ny\t三三，四四\t\n", "utf-8")
    refuse("ads: the column of ads is empty in all 2 rows: pass another --ad_column")


def test_a_run_that_was_killed_leaves_nothing_that_matters(make, work):
    left = work / "out" / ".rewrite_data.making"
    (left / "made").mkdir(parents=True)
    (left / "made" / "train_0620.txt").write_text("old")
    (left / "0.ads").write_text("old")
    assert make(dev_share=0)[0] == 0
    assert "old" not in (work / "out" / "train_0620.txt").read_text(encoding="utf-8")
    names = {path.name for path in (work / "out").iterdir()}
    assert len(names) == 6 and not left.exists()


def test_earlier_files_stay_where_a_run_fails(make, work, refuse):
    assert make(dev_share=0)[0] == 0
    pathlib.Path("ads").write_text("一\n", encoding="utf-8")
    refuse("no ad gives a row", dev_share=0)
