"""Forty faults in five copies of real files: each is found where it was planted."""

import json
import random

import pytest

from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.bio import Span
from tests.support.paths import DATA
from tests.support.runs import assert_refused
from tests.tasks.tagging.test_reader import read

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the data folder ../shared/data is absent"
)
ROWS = 600  # of a copy
TYPES = [f"{a}.{b}" for a in ("GPE", "LOC", "ORG", "PER") for b in ("NAM", "NOM")]
CLUENER = "address book company game government movie name organization position scene"


# -- copies without faults: of CoNLL a list of lines [word, tag] for each sentence ----


def weibo(scheme):
    path = DATA / "weibo_ner" / "weiboNER_2nd_conll.train"
    options = {"token_pattern": "(.+)[0-9]", "repair_bio": "begin"}
    for example in read(path, "conll", **options)[0][:ROWS]:
        starts, ends = ([place[side] for place in example.words] for side in (0, 1))
        spans = [
            Span(starts.index(start), ends.index(end) + 1, kind)
            for start, end, kind in example.label.spans
        ]
        tags = bio.write_tags(spans, len(example.words), scheme)
        words = [example.text_a[start:end] for start, end in example.words]
        yield [[word, tag] for word, tag in zip(words, tags, strict=True)]


def cluener():
    """The rows as they are: {"text": ..., "label": {type: {mention: [[a, b]]}}}."""
    text, place, rows = (DATA / "cluener" / "train.json").read_text(), 0, []
    while len(rows) < ROWS:
        row, place = json.JSONDecoder().raw_decode(text, place)
        place = text.index("{", place)
        rows.append(row)
    return rows


# -- faults: each changes a row, at the unit where it can be, and returns that unit ----


def _set(at, tag):
    def plant(row):
        unit = next(i for i in range(len(row)) if at([tag for _, tag in row], i))
        row[unit][1] = tag(row[unit][1]) if callable(tag) else tag
        return unit

    return plant


def outside(tags, i):
    """Nothing begins, ends or goes on here."""
    return tags[max(0, i - 1) : i + 2] == ["O"] * 3


def inside(tags, i):
    """The last unit of an entity of several."""
    ends = i + 1 == len(tags) or tags[i + 1][0] not in "IE"
    return tags[i][0] in "IE" and ends


def only_begun(tags, i):
    """The end of an entity of two units, which then has none."""
    return tags[i][0] == "E" and tags[i - 1][0] == "B"


def _end(row):
    """What has no end begins one line above."""
    return _set(only_begun, "O")(row) - 1


def other(tag):
    return tag[:2] + next(kind for kind in TYPES if kind != tag[2:])


def column(row):
    del row[0][1]
    return 0


def empty(row):
    row[1][0] = ""
    return 1


BIO = {
    "an orphan": (_set(outside, "I-PER.NAM"), "without a B-PER.NAM before it"),
    "another type inside": (_set(inside, other), "the type changes inside"),
    "a zero": (_set(outside, "0"), "'0' (zero) where 'O' is meant"),
    "a small o": (_set(outside, "o"), "'o' (a small letter) where 'O' is meant"),
    "a letter": (_set(outside, "X-PER.NAM"), "'X-PER.NAM' is not a tag of BIO"),
    "a column": (column, "1 column, but 2 are needed"),
    "an empty word": (empty, "the word is empty"),
    "a type": (_set(outside, "B-PRE.NAM"), "the type 'PRE.NAM' is not one of"),
}
BIOES = {
    "an end": (_set(outside, "E-LOC.NAM"), "without a B-LOC.NAM before it"),
    "a middle": (_set(outside, "I-LOC.NAM"), "without a B-LOC.NAM before it"),
    "no end": (_end, "after it"),
    "another type inside": (_set(inside, other), "the type changes inside"),
    "a zero": (_set(outside, "0"), "'0' (zero) where 'O' is meant"),
    "a column": (column, "1 column, but 2 are needed"),
    "a type": (_set(outside, "S-PRE.NAM"), "the type 'PRE.NAM' is not one of"),
    "a single without type": (_set(outside, "S"), "'S' is not a tag of BIOES"),
}


def _tags(change):
    def plant(row):
        row["ner_tags"] = change(row["ner_tags"])

    return plant


def _blank_word(row):
    row["tokens"][1] = " "


LISTS = {
    "a tag less": (_tags(lambda tags: tags[1:]), "words and "),
    "a number": (_tags(lambda tags: [7, *tags[1:]]), "7 is not a tag: write its name"),
    "null": (_tags(lambda tags: [None, *tags[1:]]), "None is not a tag"),
    "one string": (_tags(" ".join), "pass a tag for each"),
    "an orphan": (_tags(lambda tags: ["I-PER.NAM", *["O"] * (len(tags) - 1)]),
                  "without a B-PER.NAM before it"),
    "a letter": (_tags(lambda tags: ["Q-PER.NAM", *["O"] * (len(tags) - 1)]),
                 "'Q-PER.NAM' is not a tag of BIO"),
    "a type": (_tags(lambda tags: ["B-PRE.NAM", *["O"] * (len(tags) - 1)]),
               "the type 'PRE.NAM' is not one of"),
    "an empty word": (_blank_word, "the word is empty"),
}  # fmt: skip


def _mentions(change):
    """change(text, start, last) -> mentions of type `name`, with places."""

    def plant(row):
        text = row["text"]
        row["label"] = {"name": change(text, 2, 4)}

    return plant


GROUPS = {
    "off by one": (_mentions(lambda t, a, b: {t[a : b + 1]: [[a + 1, b + 1]]}),
                   "off by 1: write [2, 4]"),
    "an end excluded": (_mentions(lambda t, a, b: {t[a : b + 1]: [[a, b + 1]]}),
                        "off by 1: write [2, 4]"),
    "another text": (_mentions(lambda t, a, b: {"不在其中": [[a, b]]}),
                     "not '不在其中'"),
    "outside": (_mentions(lambda t, a, b: {t[a:]: [[a, len(t)]]}),
                "outside of the text"),
    "backwards": (_mentions(lambda t, a, b: {t[a:b]: [[b, a]]}), "is empty"),
    "crossing": (_mentions(lambda t, a, b: {t[a : b + 1]: [[a, b]],
                                            t[b : b + 2]: [[b, b + 1]]}), "crosses"),
    "a place as text": (_mentions(lambda t, a, b: {t[a : b + 1]: [["2", "4"]]}),
                        "is no span"),
    "no places": (_mentions(lambda t, a, b: [[a, b]]), "is no span"),
}  # fmt: skip


def _spans(*spans):
    def plant(row):
        row["label"] = [*spans]

    return plant


def _blank(row):
    row["text"] = row["text"][:3] + " " + row["text"][3:]
    row["label"] = [[1, 4, "name"]]


SPANS = {
    "empty": (_spans([3, 3, "name"]), "the span 3 to 3 (name) is empty"),
    "outside": (_spans([3, 999, "name"]), "outside of the text"),
    "before the text": (_spans([-1, 2, "name"]), "outside of the text"),
    "crossing": (_spans([0, 3, "name"], [2, 5, "book"]), "crosses 0 to 3"),
    "inside another": (_spans([0, 5, "name"], [2, 4, "book"]), "lies in 0 to 5"),
    "a blank": (_blank, "with a blank at an end"),
    "two values": (_spans([0, 3]), "[0, 3] is no span"),
    "a type": (_spans([0, 3, "nmae"]), "the type 'nmae' is not one of"),
}


def conll(rows, faults, rng):
    """(the text of a file, the line and the words of each fault)."""
    planted = dict(zip(rng.sample(range(ROWS), ROWS), [*faults.values()], strict=False))
    lines, expected, waiting = [], [], []
    for number, row in enumerate(rows):
        if number in planted:
            waiting.append(planted[number])
        for fault in [*waiting]:  # the next sentence where it can be
            try:
                unit = fault[0](row)
            except StopIteration:
                continue
            waiting.remove(fault)
            expected.append((len(lines) + unit + 1, fault[1]))
            break
        lines += ["\t".join(cells) for cells in row] + [""]
    assert not waiting
    return "\n".join(lines), expected


def objects(rows, faults, rng, indent=None):
    places = sorted(rng.sample(range(ROWS), len(faults)))
    text, line, expected = [], 1, []
    waiting = dict(zip(places, faults.values(), strict=True))
    for number, row in enumerate(rows):
        if number in waiting:
            plant, words = waiting[number]
            plant(row)
            expected.append((line, words))
        text.append(json.dumps(row, ensure_ascii=False, indent=indent) + "\n")
        line += text[-1].count("\n")
    return "".join(text), expected


def lists():
    for row in weibo("bio"):
        yield {"tokens": [w for w, _ in row], "ner_tags": [tag for _, tag in row]}


def flat():
    for row in cluener():
        spans = [
            [start, last + 1, kind]
            for kind, mentions in row["label"].items()
            for places in mentions.values()
            for start, last in places
        ]
        yield {"text": row["text"], "label": spans}


WEIBO = {"labels": TYPES}
COPIES = {
    "BIO": ("conll", WEIBO, lambda rng: conll(weibo("bio"), BIO, rng)),
    "BIOES": ("conll", WEIBO, lambda rng: conll(weibo("bioes"), BIOES, rng)),
    "lists": (
        "jsonl",
        {**WEIBO, "text_a": "tokens", "label": "ner_tags"},
        lambda rng: objects(lists(), LISTS, rng),
    ),
    "groups": (
        "jsonl",
        {"labels": CLUENER.split()},
        lambda rng: objects(cluener(), GROUPS, rng, indent=1),
    ),
    "spans": (
        "jsonl",
        {"labels": CLUENER.split()},
        lambda rng: objects(flat(), SPANS, rng),
    ),
}


@pytest.mark.parametrize("name", [*COPIES])
def test_every_planted_fault_is_found(tiny, tmp_path, inside, name):
    """By a training, which does not begin: eight in each copy, and nothing else."""
    form, task, make = COPIES[name]
    text, expected = make(random.Random(name))
    (tmp_path / "train").write_text(text)
    task = {"type": "tags", "format": form, "train": "train", "dev": "train", **task}
    (tmp_path / "task.json").write_text(json.dumps(task))
    out = tmp_path / "out"
    flags = {"data_dir": tmp_path, "do_train": True, "init_checkpoint": None}
    result = inside(tiny.flags(out, "mine", **flags))
    assert_refused(result, "(the first of ", " faults, see above)")
    lines = [line for line in result[2].splitlines() if f"{tmp_path}/train:" in line]
    assert len(expected) == 8
    for number, words in expected:
        at = f"{tmp_path}/train:{number}: "
        assert [line for line in lines if at in line and words in line], (at, words)
    # A change of type is another fault of the entity that it cuts, one line above.
    near = {number + above for number, _ in expected for above in (0, -1)}
    places = {int(line.split(f"{tmp_path}/train:")[1].split(":")[0]) for line in lines}
    assert places <= near and len(lines) <= 9
    assert not [*out.glob("model.ckpt*")] and "training:" not in result[2]
