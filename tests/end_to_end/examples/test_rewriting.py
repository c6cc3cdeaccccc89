"""edit_text.sh and rewrite_ads.sh run whole, on small files."""

import json
import os
import subprocess

import pytest

from tests.support import ranked, rewriting
from tests.support.paths import EXAMPLES

SMALL = ("--xla=off", "--report=false", "--learning_rate=5e-3")


def test_editing(tmp_path, tiny, real):
    """The head learns first; then a file and a text are rewritten."""
    rewriting.write_tables(tmp_path / "data")
    out = tmp_path / "out"
    settings = {"DATA": tmp_path / "data", "MODEL": tiny.model, "OUT": out}
    settings |= {"LENGTH": 24, "HEAD_STEPS": 4, "EPOCHS": 4, "KEEP_BIAS": 0.5}
    settings["INSERT_FROM"] = "vocabulary"
    done = real("edit_text.sh", *SMALL, settings=settings)
    assert done.returncode == 0, done.stderr
    assert "objectives  masked words\n" in done.stderr
    assert f"loaded from {out}/head" in done.stderr
    texts = (out / "trained" / "predict.txt").read_text().splitlines()
    records = (out / "trained" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in records]
    assert [row["text"] for row in rows] == texts and len(texts) == 9
    sources = [row["source"] for row in rewriting.pairs(9, 2)]
    assert texts != sources
    for source, row in zip(sources, rows, strict=True):
        for start, end, old, new in reversed(row["edits"]):
            assert source[start:end] == old
            source = source[:start] + new + source[end:]
        assert source == row["text"]


@pytest.mark.nightly
def test_ads(tmp_path, tiny, real):
    """Phrases of the bank for each segment of a new ad, and a slot that is filled."""
    ads = ranked.products(40, seed=5)
    new = [ad for _, ad in ranked.products(3, seed=6)]
    table = ["product\tad", *("\t".join(row) for row in ads)]
    (tmp_path / "ads.tsv").write_text("\n".join([*table, ""]))
    (tmp_path / "new.txt").write_text("\n".join([*new, ""]))
    out = tmp_path / "out"
    settings = {"ADS": tmp_path / "ads.tsv", "NEW": tmp_path / "new.txt", "OUT": out}
    settings |= {"MODEL": tiny.model, "LENGTH": 48, "CANDIDATES": 4}
    done = real(
        "rewrite_ads.sh", *SMALL, settings=settings | {"HEAD_STEPS": 4, "EPOCHS": 1}
    )
    assert done.returncode == 0, done.stderr
    lines = (out / "ranker" / "rewrites.jsonl").read_text().splitlines()
    assert lines[0] in done.stdout
    assert len(lines) == sum(ad.count("，") + 1 for ad in new)
    for line in lines:
        slot = json.loads(line)
        said = [one["probability"] for one in slot["candidates"]]
        assert len(said) == 5 and said == sorted(said, reverse=True)
        (start, end), ad = slot["slot"], slot["ad"]
        for one in slot["candidates"]:
            assert one["text"] == ad[:start] + one["phrase"] + ad[end:]
        assert {one["text"] for one in slot["candidates"]} & {*new}
    assert "mrr" in (out / "ranker" / "eval_results.txt").read_text()
    assert "sari" in (out / "writer" / "eval_results.txt").read_text()
    assert "[SLOT]" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("new", ["", "none.txt"])
def test_new_ads_that_are_missing_are_told_of_first(tmp_path, new):
    """Without them, hours of training would end in an error, or in the demo's ads."""
    (tmp_path / "ads.tsv").write_text("product\tad\n")
    out = tmp_path / "out"
    settings = {"ADS": f"{tmp_path}/ads.tsv", "NEW": new, "OUT": str(out)}
    done = subprocess.run(
        ["bash", EXAMPLES / "rewrite_ads.sh"],
        env={**os.environ, "PYTHON": "true", **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"error: NEW={new}: no such file" in done.stderr and not done.stdout
