"""The built-in tasks' files, against rows worked out by hand and by csv."""

import csv
import io
import json
import random

import pytest

from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.classification.reader import read_label
from bert_mgpu.tasks.reader import read_examples
from tests.support.builtin_files import ID8, write_file

BOM = "\ufeff"
XNLI = "\t".join(f"c{i}" for i in range(2, 6))  # xnli's columns 2 to 5

# (task, split, file, rows with labels, rows to predict); a row is (line,
# text_a, text_b, label). None: such a file has no labels. (): the same rows.
# fmt: off
CASES = [
    ("cola", "train",
     'gj04\t1\t\t"Quoted, once.\r\nx\t0\t*\ta\u2028b "\r\nx\t1\t\t\r\n',
     [(1, '"Quoted, once.', None, "1"), (2, 'a\u2028b "', None, "0"),
      (3, "", None, "1")],
     ()),
    ("cola", "test",
     BOM + "index\tsentence\n0\tIt is.\n\n2\t\n",
     None,
     [(2, "It is.", None), (3, "", None), (4, "", None)]),
    ("mnli", "dev",
     f"{ID8}\tsentence1\tsentence2\tl1\tgold_label\r\n"
     f'{ID8}\tA man\tA "man\tneutral\tentailment\r\n'
     f"{ID8}\t\tB\tcontradiction\r\n",
     [(2, "A man", 'A "man', "entailment"), (3, "", "B", "contradiction")],
     ()),
    ("mnli", "test",
     f"{ID8}\tsentence1\tsentence2\n{ID8}\tone\ttwo\n",
     None,
     [(2, "one", "two")]),
    ("mrpc", "train",
     BOM + "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
     '1\t10\t11\tHe said "\tShe\n0\t12\t13\t\t\n',
     [(2, 'He said "', "She", "1"), (3, "", "", "0")],
     ()),
    ("mrpc", "test",
     "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\tc\n",
     None,
     [(2, "a", "b")]),
    ("xnli", "train",
     "premise\thypo\tlabel\n从 概念\t产品\tneutral\n甲\t乙\tcontradictory\n",
     [(2, "从 概念", "产品", "neutral"), (3, "甲", "乙", "contradiction")],
     ()),
    ("xnli", "dev",
     f"language\tgold_label\t{XNLI}\tsentence1\tsentence2\tpromptID\n"
     f"ar\tbroken\n\nzh\tneutral\t{XNLI}\t他说\t“妈\t1\n"
     f"zh-Hant\tneutral\t{XNLI}\tx\ty\nzh\tentailment\t{XNLI}\t丙\t\n",
     [(4, "他说", "“妈", "neutral"), (6, "丙", "", "entailment")],
     ()),
    ("sentiment", "train",
     '{"comment": "很好吃的", "items": [{"sentiment": 2}, {"x": 0}]}\n'
     '{"items": [{"sentiment": 1}], "comment": "一般"}\n'
     '{"comment": "a\\"b\\tc", "items": [{"sentiment": "0"}]}\n',
     [(1, "很好", "吃的", "1"), (3, 'a"', "b\tc", "0")],
     [(1, "很好", "吃的"), (2, "一", "般"), (3, 'a"', "b\tc")]),
    ("sentiment", "dev",
     '{"comment": "abc"}\n\n{"comment": "", "items": []}\n',
     None,
     [(1, "a", "bc"), (2, "", None), (3, "", "")]),
    ("wos5736", "train",
     "10\tone, two, three,four, five\n0\tno comma\textra\n3\t\n",
     [(1, "one, two", " threefour five", "10"), (2, "", "no comma", "0"),
      (3, "", "", "3")],
     ()),
    ("wos46985", "dev",
     "133\ta,b\n7\t,\n",
     [(1, "a", "b", "133"), (2, "", "", "7")],
     ()),
    ("toutiao", "train",
     "\u3000news_car \t “轿车” \t关键词\n\n \t \nstock\t\n\tnews_edu\t高考\n",
     [(1, "“轿车”", None, "news_car"), (4, "", None, "stock"),
      (5, "高考", None, "news_edu")],
     [(1, "“轿车”", None), (2, "", None), (3, "", None), (4, "", None),
      (5, "news_edu", None)]),
    ("toutiao", "dev",
     "\t没有 标签\t关键词\r\nwhatever\tX\r\n",
     None,
     [(1, "没有 标签", None), (2, "X", None)]),
    ("title_audit", "train",
     '1\tc\t 1 \tx\t "ABC\u2028标题 \r\n2\tc\t0\t\r\n3\tc\t1\ttitle\t\r\n',
     [(1, '"abc\u2028标题', None, "1"), (2, "", None, "0"),
      (3, "", None, "1")],
     ()),
    ("title_audit", "dev",
     "Only A Title\nid\tcategory\tTitle\n\n",
     None,
     [(1, "only a title", None), (2, "title", None), (3, "", None)]),
    ("abuse", "dev",
     "1\tu\t1\tBAD\n2\tu\t0\t Good \n",
     [(1, "bad", None, "1"), (2, "good", None, "0")],
     ()),
    ("ad", "train",
     "1\t0\t全场五折\t““““，快来！\n0\tx\t \tAd \t\n",
     [(1, "全场五折", "““““，快来！", "1"), (2, " ", "Ad ", "0")],
     ()),
    ("high_level", "train",
     'a\t体育\t1\t "NBA 总决赛 \tmore\nb\t体育\t0\t\n',
     [(1, ' "nba 总决赛 ', None, "1"), (2, "", None, "0")],
     ()),
    ("doc_lv1", "dev",
     'game\t"王者 \tURL\nhouseliving\t A\n',
     [(1, '"王者 ', None, "game"), (2, " A", None, "houseliving")],
     ()),
]
# fmt: on


@pytest.mark.parametrize(
    ("name", "split", "text", "labelled", "to_predict"),
    CASES,
    ids=[f"{case[0]}-{case[1]}" for case in CASES],
)
def test_rows_are_those_worked_out_by_hand(
    tmp_path, name, split, text, labelled, to_predict
):
    task, path = BUILTIN[name], write_file(tmp_path / "file", text)
    if labelled is not None:
        rows = read_examples(task, path, split, label=read_label, with_label=True)
        assert [(r.line, r.text_a, r.text_b, r.label) for r in rows] == labelled
        assert [r.guid for r in rows] == [f"{split}-{r.line - 1}" for r in rows]
        to_predict = to_predict or [row[:3] for row in labelled]
    rows = read_examples(task, path, split, label=read_label, with_label=False)
    assert [(r.line, r.text_a, r.text_b) for r in rows] == to_predict
    assert {r.label for r in rows} == {None}


def test_every_task_has_a_case():
    assert {case[0] for case in CASES} == set(BUILTIN)
    assert len(BUILTIN) == 13


# The columns of each task, as the processors of google-research/bert and
# bert-ad index the fields that csv.reader gives: text_a, text_b, label.
def _wos(f):
    pieces = f[1].split(",")
    half = len(pieces) // 2
    return ",".join(pieces[:half]), "".join(pieces[half:]), f[0]


def _audit(f):
    return f[-1].lower().strip(), None, f[2].strip()


PROCESSORS = {
    "cola": lambda f: (f[3], None, f[1]),
    "mnli": lambda f: (f[8], f[9], f[-1]),
    "mrpc": lambda f: (f[3], f[4], f[0]),
    "xnli": lambda f: (f[6], f[7], f[1]),
    "wos5736": _wos,
    "wos46985": _wos,
    "toutiao": lambda f: (f[1].strip(), None, f[0].strip()),
    "title_audit": _audit,
    "abuse": _audit,
    "ad": lambda f: (f[2], f[3], f[0]),
    "high_level": lambda f: (f[3].lower(), None, f[2]),
    "doc_lv1": lambda f: (f[1], None, f[0]),
}
HAS_HEADER = ("mnli", "mrpc", "xnli")
# One class of each task, and where its files hold it.
LABEL_CELLS = {
    "cola": (1, "1"),
    "mnli": (-1, "neutral"),
    "mrpc": (0, "0"),
    "xnli": (1, "entailment"),
    "wos5736": (0, "10"),
    "wos46985": (0, "133"),
    "toutiao": (0, "news_culture"),
    "title_audit": (2, "1"),
    "abuse": (2, "0"),
    "ad": (0, "1"),
    "high_level": (2, "1"),
    "doc_lv1": (0, "mil"),
}
CHARACTERS = "abÀÉ中文，,\"'“ \u2028\u0085\u3000\x0b🙂"


def _random_text(rng: random.Random) -> str:
    return "".join(rng.choices(CHARACTERS, k=rng.randrange(9)))


@pytest.mark.parametrize("name", PROCESSORS)
def test_rows_equal_those_of_a_csv_reader(tmp_path, name):
    rng = random.Random(name)
    column, label = LABEL_CELLS[name]
    lines = []
    for _ in range(200):
        fields = [_random_text(rng) for _ in range(rng.randrange(11, 14))]
        fields[0] = rng.choice(("zh", "zh", "en")) if name == "xnli" else "0"
        fields[column] = label
        lines.append("\t".join(fields))
    text = "\n".join(lines) + "\n"
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter="\t", quotechar=None)
    fields = list(reader)[name in HAS_HEADER :]
    assert len(fields) == 200 - (name in HAS_HEADER)
    expected = [
        PROCESSORS[name](row) for row in fields if name != "xnli" or row[0] == "zh"
    ]
    path = write_file(tmp_path / "file", text)
    rows = read_examples(BUILTIN[name], path, "dev", label=read_label, with_label=True)
    assert [(r.text_a, r.text_b, r.label) for r in rows] == expected


@pytest.mark.parametrize("name", [*PROCESSORS, "sentiment"])
def test_one_example_to_predict_for_each_data_line(tmp_path, name):
    rng = random.Random(name)
    lines = []
    for _ in range(300):
        # A label column may hold anything; the others are there or it is blank.
        fields = [_random_text(rng) for _ in range(rng.randrange(10, 14))]
        line = "\t".join(fields)
        if name == "sentiment":
            line = json.dumps({"comment": line, "items": rng.choice([[], None, 3])})
        lines.append(rng.choice([line] * 9 + ["", " ", "\t", "\u3000"]))
    if name == "xnli":
        lines = ["zh\t" + line for line in lines if line.strip()]
    end = rng.choice(("\n", "\r\n"))
    path = write_file(tmp_path / "file", BOM + end.join(lines) + end)
    first = 2 if name in HAS_HEADER else 1
    rows = read_examples(BUILTIN[name], path, "dev", label=read_label, with_label=False)
    assert [row.line for row in rows] == list(range(first, len(lines) + 1))
