"""Rows of ads: bert-ad's own on forty of them, and what holds on all of two sets."""

import collections
import gzip
import json
import lzma
import pathlib
import random
import re

import pytest

from bert_mgpu.core.rng import philox
from bert_mgpu.data_prep import candidates, rewrite_data
from bert_mgpu.text import ad_segments
from tests.support.marks import rarely
from tests.support.paths import DATA

SETS = DATA / "rewrite_data"
BERT_AD = SETS / "golden" / "bert_ad"
needs_data = pytest.mark.skipif(
    not SETS.is_dir(), reason=f"real texts and vocabularies are not at {DATA}"
)
ADVERTISEGEN = {
    "input_file": f"{SETS}/advertisegen/*.jsonl",
    "ad_column": "summary",
    "hint_column": "content",
}
TAODESCRIBE = {"input_file": f"{SETS}/taodescribe/*.tsv", "hint_column": "2"}
REAL = {
    "argvalues": [TAODESCRIBE, *rarely(ADVERTISEGEN)],
    "ids": ["taodescribe", "advertisegen"],
}
FILES = ("train_0620.txt", "eval_0620.txt")
WORDS = ["修身显瘦", "穿着舒适", "优雅大方", "个性十足", "不易变形", "方便穿脱"]
WORDS += ["手感柔软", "经久耐用"]


def texts(count, seed=1):
    """Ads of four segments; all different."""
    rng = random.Random(seed)
    return [
        f"第{n:03}款式，" + "，".join(rng.sample(WORDS, 3)) + "。" for n in range(count)
    ]


def write(ads, name="ads"):
    pathlib.Path(name).write_text("".join(f"{ad}\n" for ad in ads), encoding="utf-8")


def test_what_is_left_out_is_counted(make):
    """Rows without an ad; and slots that ranking does not find."""
    write([*texts(20), "x\t"])
    code, err = make()
    assert code == 0 and "rows without an ad in --ad_column, left out: 1" in err
    assert "--task_name=ad" not in err
    write([ad.replace("，", ",") for ad in texts(20)])
    code, err = make(delimiters=",。")
    assert code == 0 and "left out: 1" not in err
    said = "--task_name=ad finds slots only between 。！!？，： and not at ,:"
    assert said in " ".join(err.split())


@needs_data
def test_the_rows_of_bert_ads_own_code(make, rows, work):
    """Its two files of ads: one is the last field but one, the other all of a line."""
    other = [line.split("\t") for line in (BERT_AD / "ins.all").read_text().split("\n")]
    lines = (BERT_AD / "idea_ctr_part_0").read_text().split("\n")
    lines += [f"0\t{cells[0]}\t0" for cells in other if cells[0]]
    write(filter(None, lines))
    code, err = make(ad_column=-2)
    assert code == 0, err
    ours = {tuple(row) for name in FILES for row in rows(name) if row[0] == "1"}
    golden = {
        tuple(row)
        for name in ("train_0620.txt", "test_0620.txt")
        for row in rows(name, BERT_AD)
        if row[0] == "1"
    }
    assert len(golden) == 298 and ours == golden


@needs_data
def test_the_phrases_that_bert_ad_finds_beside_the_main_part(make, rows):
    code, err = make(input_file=BERT_AD / "rewrite_ins", main_column=1)
    assert code == 0, err
    golden = (BERT_AD / "matches.txt").read_text().split("\n")[:-1]
    ours = [row[0] for row in rows("matches.txt")]
    assert sorted(ours) == sorted(golden)
    bank = rows("bank.tsv")
    assert bank[0][-1] == "beside_main"
    assert [row[0] for row in bank[1:] if row[-1] != "0"] == ours


def sides(rows):
    """The ads of each file, slots filled with the phrases of positive rows."""
    for name in FILES:
        positive = [row for row in rows(name) if row[0] == "1"]
        yield {filled(row) for row in positive}


def filled(row):
    """The ad of a positive row."""
    slot = ad_segments.SLOT_CHARACTER * len(row[2])
    for match in re.finditer(f"(?={slot})", row[3]):
        ad = row[3][: match.start()] + row[2] + row[3][match.end() + len(slot) :]
        cut = ad_segments.segments(ad)
        if any(s.text == row[2] and s.number == int(row[1]) for s in cut):
            return ad
    raise AssertionError(row)


@needs_data
@pytest.mark.parametrize("flags", **REAL)
@pytest.mark.parametrize("negatives", ["random:1", *rarely("length:3", "near:2")])
def test_splits_and_negatives_of_real_ads(make, rows, flags, negatives):
    code, err = make(**flags, negatives=negatives)
    assert code == 0, err
    train, dev = sides(rows)
    assert not train & dev and 0.08 < len(dev) / len(train | dev) < 0.12
    kind, count = negatives.split(":")
    far = total = 0
    for name, ads in zip(FILES, (train, dev), strict=True):
        lines = rows(name)
        step = 1 + int(count)
        assert len(lines) % step == 0
        phrases = {s.text for ad in ads for s in ad_segments.segments(ad)}
        for first in range(0, len(lines), step):
            positive, *others = lines[first : first + step]
            assert [row[0] for row in [positive, *others]] == ["1", *"0" * len(others)]
            ad, texts = filled(positive), {row[2] for row in others}
            assert len(texts) == len(others)
            for _, index, phrase, blank in others:
                assert phrase not in ad and phrase in phrases and index == positive[1]
                slot = ad_segments.SLOT_CHARACTER * len(phrase)
                assert len(blank) - len(positive[3]) == len(slot) - len(positive[2])
                far += abs(len(phrase) - len(positive[2])) > 2
                total += 1
    assert far / total < 0.02 or kind == "random"


@needs_data
@pytest.mark.parametrize("flags", **REAL)
def test_infill_and_rewriting_of_real_ads(make, rows, work, flags):
    code, err = make(**flags)
    assert code == 0, err
    train, dev = sides(rows)
    lines = rows("infill.txt")
    for flag, _, phrase, ad in lines:
        assert flag in "01" and phrase not in ad and ad_segments.SLOT_MARKER not in ad
    wanted = set()
    for ad in train:
        for segment in ad_segments.segments(ad):
            left = ad_segments.without(ad, segment)
            if segment.text not in left:
                wanted.add(("1", str(segment.number), segment.text, left))
    assert {tuple(row) for row in lines if row[0] == "1"} == wanted
    flags = collections.Counter(row[0] for row in lines)
    assert flags["0"] == flags["1"] > 0.9 * len(rows(FILES[0])) / 2
    for name, ads in (("train", train), ("dev", dev)):
        head, *pairs = rows(f"rewrite/{name}.tsv")
        assert head == ["source", "context", "target"]
        assert {target for _, _, target in pairs} == ads
        for source, hint, target in pairs:
            before, after = source.split("[SLOT]")
            assert target.startswith(before) and target.endswith(after) and hint
    task = json.loads((work / "out/rewrite/task.json").read_text())
    assert task["text_b"] == "context" and task["header"] is True


@pytest.mark.parametrize("negatives", ["near:2", *rarely("random:2")])
def test_the_bytes_are_the_same_for_any_number_of_workers(
    make, work, small_blocks, negatives
):
    write(texts(200) + texts(20))
    made = {}
    for workers in (1, 2, 3):
        code, err = make(workers=workers, output_dir=workers, negatives=negatives)
        assert code == 0 and "left out: 20" in err, err
        made[workers] = {
            path.relative_to(work / str(workers)): path.read_bytes()
            for path in (work / str(workers)).rglob("*")
            if path.is_file()
        }
    assert {*map(str, made[1])} == {*rewrite_data.OUTPUTS}
    assert made[1] == made[2] == made[3]
    write(texts(260)[40:], "new")
    flags = {"input_file": "new", "candidates": 5, "bank": "1/bank.tsv"}
    offered = []
    for workers in (1, 2, 3):
        out = f"new{workers}"
        assert make(**flags, workers=workers, output_dir=out)[0] == 0
        offered.append((work / out / candidates.OUTPUT).read_bytes())
    assert offered[0].count(b"\n") > 600 and {*offered} == {offered[0]}


def test_blocks_change_nothing(make, rows, monkeypatch):
    from bert_mgpu.data_prep import ad_files, phrase_mining

    write(texts(300))
    assert make(output_dir="whole")[0] == 0
    monkeypatch.setattr(ad_files, "_BLOCK", 50)
    monkeypatch.setattr(phrase_mining, "_FAN_IN", 3)
    monkeypatch.setattr(phrase_mining, "_RARE", 8)
    assert make(output_dir="cut")[0] == 0
    for name in ("bank.tsv", *FILES, "infill.txt", "rewrite/dev.tsv"):
        assert rows(name, "whole") == rows(name, "cut")


def test_seeds(make, rows):
    write(texts(200))
    made = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        make(output_dir=folder, random_seed=seed)
        made.append([rows(name, folder) for name in FILES])
    assert made[0] == made[1] != made[2]


def test_an_ad_keeps_its_side_when_others_come(make, rows):
    write(texts(200))
    make(output_dir="a")
    write(random.Random(2).sample(texts(400), 400))
    make(output_dir="b")
    old, new = (
        [{filled(r) for r in rows(n, f) if r[0] == "1"} for n in FILES] for f in "ab"
    )
    assert old[0] and old[0] <= new[0] and old[1] and old[1] <= new[1]


def test_the_bank_counts(make, rows):
    write(
        ["头，中，中，头，尾", "头，中。", "尾", "头，中，中，头，尾", "  尾，中，末  "]
    )
    code, err = make(dev_share=0)
    assert code == 0, err
    assert "ads: 5, repeated and left out: 1" in err
    assert "ads that give no rows: 1 with fewer than two segments" in err
    head, *bank = rows("bank.tsv")
    assert head == ["phrase", "count", "ads", "first", "middle", "last", "beside_main"]
    assert bank == [
        ["中", "4", "3", "0", "3", "1", "0"],
        ["头", "3", "2", "2", "1", "0", "0"],
        ["尾", "3", "3", "2", "0", "1", "0"],
        ["末", "1", "1", "0", "0", "1", "0"],
    ]
    assert rows("matches.txt") == [["中"], ["头"], ["尾"], ["末"]]
    # A dev file without rows could not be evaluated.
    assert "dev" not in json.loads(pathlib.Path("out/rewrite/task.json").read_text())


def test_infill_leaves_out_what_would_be_copied(make, rows):
    write(["头部，中间，头部", "左边，右边"])
    code, err = make(dev_share=0)
    assert code == 0 and "not in infill.txt: 2 segments, found" in err
    positive = [row for row in rows("infill.txt") if row[0] == "1"]
    assert ["1", "1", "中间", "头部，头部"] in positive
    assert {row[2] for row in positive} == {"中间", "左边", "右边"}
    blank = [row for row in rows("train_0620.txt") if row[:3] == ["1", "2", "头部"]]
    assert [row[3] for row in blank] == ["头部，中间，““"]  # one occurrence


def test_lengths_of_segments(make, rows):
    write(texts(60))
    assert make(min_segment=4, max_segment=4)[0] == 0
    phrases = {row[2] for name in FILES for row in rows(name)}
    assert phrases <= {*WORDS}
    assert {row[0] for row in rows("bank.tsv")[1:]} == phrases
    # Of the other segments the ads keep every character.
    assert all("款式，" in row[3] for row in rows(FILES[0]))


def test_ads_that_hold_a_slot_give_no_rows(make, rows):
    write([*texts(40), "一，[SLOT]，二", "一一，““，二二"])
    code, err = make()
    assert code == 0 and "rows: 2 with [SLOT] or a segment of quot" in err
    assert not any("[SLOT]" in row[3] or "一一" in row[3] for row in rows(FILES[0]))
    bank = {row[0] for row in rows("bank.tsv")}
    assert {"一", "一一", "二二"} <= bank and not {"[SLOT]", "““"} & bank


def test_no_phrase_is_a_slot(make, rows):
    write([*(f"{ad}\t手感柔软" for ad in texts(40)), "好[SLOT]，手感柔软，“\t手感柔软"])
    code, err = make(ad_column=0, main_column=1, dev_share=0)
    assert code == 0, err
    assert not [row for row in rows("bank.tsv") if {*"“["} & {*row[0]}]
    write(["[SLOT]", "好[SLOT]", "““", "很“好”的", "显瘦"], "bank")
    flags = {"output_dir": "new", "candidates": 9, "bank": "bank"}
    assert make(ad_column=0, **flags)[0] == 0
    offered = {row[2] for row in rows("candidates.txt", "new") if row[0] == "0"}
    assert offered == {"很“好”的", "显瘦"}


def test_ads_of_too_many_segments_give_no_rows(make, rows):
    """The whole ad is in the rows of each segment: their size grows with the square."""
    long = ["，".join(f"{n:02}{sign}" for n in range(100)) for sign in "甲乙"]
    write([*texts(40), long[0], f"多一段，{long[1]}"])
    code, err = make(dev_share=0)
    assert code == 0 and "rows: 1 with more than 100 segments" in err
    phrases = {row[2] for row in rows("train_0620.txt")}
    assert {"00甲", "99甲"} <= phrases and not {"00乙", "多一段"} & phrases
    assert "00乙" in {row[0] for row in rows("bank.tsv")}


@pytest.mark.parametrize("wanted", [1, 8, 200])
def test_few_random_numbers_are_held_at_once(make, rows, monkeypatch, wanted):
    held, draw = [], philox.words_of_each
    monkeypatch.setattr(
        philox, "words_of_each", lambda *a, **k: held.append(draw(*a, **k)) or held[-1]
    )
    write([*texts(70), "，".join(f"{n}段" for n in range(100))])
    assert make(negatives=f"random:{wanted}", dev_share=0)[0] == 0
    assert max(words.size for words in held) <= 4 * 101 * max(64, wanted)


def test_formats_give_the_same_rows(make, rows):
    """Lines, tables with and without a header, JSON Lines, packed, of other bytes."""
    ads = texts(50)
    write(ads)
    write(["no\tad\tx", *(f"{n}\t{ad}\t" for n, ad in enumerate(ads))], "a.tsv")
    write(["no,ad", *(f'{n},"{ad}"' for n, ad in enumerate(ads))], "a.csv")
    write([json.dumps({"ad": ad, "n": 1}) for ad in ads], "a.jsonl")
    raw = pathlib.Path("ads").read_bytes()
    pathlib.Path("b1.txt.gz").write_bytes(gzip.compress(raw[: raw.index(b"\n") + 1]))
    pathlib.Path("b2.txt.xz").write_bytes(lzma.compress(raw[raw.index(b"\n") + 1 :]))
    pathlib.Path("bom").write_bytes(b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"))
    pathlib.Path("gbk").write_bytes(raw.decode().encode("gbk"))
    assert make(output_dir="plain")[0] == 0
    cases = [("a.tsv", {"ad_column": "ad"}), ("a.csv", {"ad_column": "ad"})]
    cases += [("a.jsonl", {"ad_column": "ad"}), ("b*", {}), ("bom", {})]
    for name, flags in [*cases, ("gbk", {"encoding": "gb18030"})]:
        code, err = make(input_file=name, output_dir="other", **flags)
        assert code == 0, err
        for file in FILES:
            assert rows(file, "other") == rows(file, "plain"), name


def test_line_ends_in_a_cell_are_blanks(make, rows):
    lines = [
        json.dumps({"ad": f"一\t{n}，二\n\n{n}，三\u2028{n}\0"}) for n in range(30)
    ]
    write(lines, "a.jsonl")
    assert make(input_file="a.jsonl", ad_column="ad")[0] == 0
    assert all(len(row) == 4 for name in FILES for row in rows(name))
    assert "二 3" in {row[2] for row in rows(FILES[0])}


def test_candidates_for_new_ads(make, rows):
    write(texts(200))
    assert make()[0] == 0
    write(["全新一款，穿着很舒适，手感特别柔软", "单独一段"], "new")
    flags = {"input_file": "new", "output_dir": "new_out", "candidates": 3}
    for bank in ("out/bank.tsv", "out/matches.txt"):
        code, err = make(**flags, bank=bank)
        assert code == 0 and f"{candidates.OUTPUT}: 12 rows" in err, err
        made = rows("candidates.txt", "new_out")
        assert [row[0] for row in made] == ["1", "0", "0", "0"] * 3
        assert made[4][2] == "穿着很舒适" and made[5][2] == "穿着舒适"  # the most alike
        assert made[8][2] == "手感特别柔软" and made[9][2] == "手感柔软"
        for _, index, phrase, ad in made:
            assert ad.split("，")[int(index)] == "“" * len(phrase)
    write(["phrase\t2", *(f"{word}\t1" for word in WORDS)], "two_columns")
    assert make(**flags | {"candidates": 99}, bank="two_columns")[0] == 0
    assert not any("phrase" in row[2] for row in rows("candidates.txt", "new_out"))
    write(["修身显瘦，优雅大方，个性十足"], "new")  # all of which the bank has
    assert make(**flags | {"candidates": 999}, bank=bank)[0] == 0
    made = rows("candidates.txt", "new_out")
    others = {row[2] for row in made if row[0] == "0"}
    assert others >= {*WORDS[4:]} and not others & {*WORDS[:1], *WORDS[2:4]}
    write(["全新一款，穿着很舒适，手感特别柔软", "单独一段"], "new")
    assert make(**flags | {"candidates": 999}, bank=bank)[0] == 0
    made = [row[2] for row in rows("candidates.txt", "new_out")[1:]]
    assert {*WORDS} <= {*made[: made.index("穿着很舒适")]}  # all that there are
