"""examples/drawn_sets.py: the sets are as the guide shows them, and free of faults."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from bert_mgpu.cli.doctor import environment
from bert_mgpu.text.ad_segments import segments
from tests.support.paths import EXAMPLES, ROOT

KINDS = ("PER", "ORG", "LOC")  # for which a name has to stand


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The folder that examples/drawn_sets.py fills, alike under any seed of hashes."""
    folders = [tmp_path_factory.mktemp("drawn") for _ in range(2)]
    for seed, folder in enumerate(folders):
        subprocess.run(
            [sys.executable, EXAMPLES / "drawn_sets.py", folder],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            timeout=60,
        )
    first, again = (
        {path.relative_to(one): path.read_bytes() for path in one.glob("*/*")}
        for one in folders
    )
    assert first == again and len(first) == 11
    for name, folder in {"qa": "questions", "rewrite": "dialogues"}.items():
        json_file = EXAMPLES / "task_json" / f"{name}.json"
        shutil.copy(json_file, folders[0] / folder / "task.json")
    return folders[0]


def drawn_words(path):
    """The (word, tag) of a CoNLL file, blank lines left out."""
    return [line.split() for line in path.read_text().splitlines() if line]


def test_drawn_sets_of_entities(drawn):
    """The doctor reads them, and no name of train stands in dev or test."""
    named = {
        split: {
            word
            for word, tag in drawn_words(drawn / "ner" / f"{split}.txt")
            if tag.startswith(("B-PER", "B-LOC"))
        }
        for split in ("train", "dev", "test")
    }
    assert all(len(names) > 5 for names in named.values())
    assert not named["train"] & named["dev"] | named["test"] & named["dev"]
    assert not named["train"] & named["test"]
    flags = ["--task_name=ner", f"--data_dir={drawn / 'ner'}"]
    assert environment.main(["data", *flags]) == 0


def test_drawn_sets_of_questions(drawn, capsys):
    """Each answer stands at its place; the doctor finds nothing wrong."""
    for split in ("train", "dev", "test"):
        text = (drawn / "questions" / f"{split}.json").read_text()
        (article,) = json.loads(text)["data"]
        asked = [
            (paragraph["context"], one)
            for paragraph in article["paragraphs"]
            for one in paragraph["qas"]
        ]
        for context, one in asked:
            assert one["is_impossible"] == (not one["answers"])
            for answer in one["answers"]:
                said, start = answer["text"], answer["answer_start"]
                assert context[start : start + len(said)] == said
        share = sum(one["is_impossible"] for _, one in asked) / len(asked)
        assert 0.1 < share < 0.2
    flags = ["--task_name=facts", f"--data_dir={drawn / 'questions'}"]
    assert environment.main(["data", *flags]) == 0
    assert "no problems found" in capsys.readouterr().out


def test_drawn_dialogues(drawn, capsys):
    """Some utterances are complete; what is written into others was mostly said."""
    for split in ("train", "dev", "test"):
        lines = (drawn / "dialogues" / f"{split}.tsv").read_text().splitlines()
        assert lines[0] == "context\tsource\ttarget"
        rows = [line.split("\t") for line in lines[1:]]
        complete = [row for row in rows if row[1] == row[2]]
        assert 0.05 < len(complete) / len(rows) < 0.3
        assert not any(kind in " ".join(row) for row in rows for kind in KINDS)
    flags = ["--task_name=dialogues", f"--data_dir={drawn / 'dialogues'}"]
    assert environment.main(["data", *flags]) == 0
    said = capsys.readouterr().out
    assert "no problems found" in said
    # Words are told apart without a vocabulary, too.
    assert re.search(r"targets equal to their text +\d+ +\d+\n", said)
    assert re.search(r"places to write at: 2 +[1-9]\d* +[1-9]", said)


def test_drawn_ads(drawn):
    """Four segments each, at bert-ad's delimiters; a new ad has another maker."""
    table = (drawn / "ads" / "ads.tsv").read_text().splitlines()
    old = [line.split("\t") for line in table[1:]]
    new = (drawn / "ads" / "new.txt").read_text().splitlines()
    assert table[0] == "product\tad" and all(product in ad for product, ad in old)
    for ad in (*(ad for _, ad in old), *new):
        assert len(segments(ad)) == 4, ad
    firsts = [
        {segments(ad)[0].text for ad in ads} for ads in ([ad for _, ad in old], new)
    ]
    assert not firsts[0] & firsts[1]


@pytest.mark.parametrize("name", ["guide.md", "guide.zh.md"])
def test_the_guide_shows_the_drawn_files(drawn, name):
    """Its excerpts stand in them, and its commands name files that there are."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    conll = re.findall(r"^```\n((?:\S+ (?:[BI]-\w+|O)\n)+)```", text, re.MULTILINE)
    squad = re.findall(r'^```\n("context": .*?\n)```', text, re.MULTILINE | re.DOTALL)
    assert len(conll) == len(squad) == 1
    assert (drawn / "ner/train.txt").read_text().startswith(conll[0])
    lines = (drawn / "questions/dev.json").read_text().splitlines()
    assert {*squad[0].splitlines()} <= {line.strip() for line in lines}
    paths = re.findall(r"\bdemo/((?:ner|questions)/[\w.]+)", text)
    assert paths and all((drawn / path).is_file() for path in paths)
