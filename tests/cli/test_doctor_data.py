"""What `bert_mgpu doctor data` says of rows that were planted, and of sound ones."""

import html
import json
import os
import re
import types

import pytest

from bert_mgpu.cli.doctor import first_rows, suspect_labels, task_data
from bert_mgpu.core import terminal
from bert_mgpu.evaluation import html as html_lib
from bert_mgpu.tasks.data_checks import LabelIssues
from tests.support.doctored import LONG, problems, sound


def test_nothing_is_said_of_sound_rows(doctor):
    code, out = doctor(train=sound(40), dev=sound(20, 100))
    assert code == 0 and problems(out) == [] and "no problems found" in out
    assert "looked for: lines that cannot be read, " in out


def test_the_first_row_of_each_set_is_shown(doctor, monkeypatch):
    """As it was read, cut to the terminal: who swapped two columns sees it."""
    monkeypatch.setenv("COLUMNS", "40")
    train = [f"一部 好电影 {n} {'x ' * 20}\tno {n}\t{n % 3}.5" for n in range(10, 20)]
    columns = ["--text_b_column=1", "--label_column=2", "--task_type=regression"]
    code, out = doctor(*columns, train=train, dev=["b\tc\t0.25"])
    assert code == 0
    assert out.splitlines()[:8] == [
        "first row of train",
        "  label   1.5",
        "  text_a  一部 好电影 10 x x x x x x x..",
        "  text_b  no 10",
        "first row of dev",
        "  label   0.25",
        "  text_a  b",
        "  text_b  c",
    ]
    assert max(map(terminal.width, out.splitlines()[:8])) <= 40
    swapped = ["--text_a_column=1", "--label_column=0"]
    _, out = doctor(*swapped, train=sound(40))
    assert out.splitlines()[1:3] == [
        "  label   0 times I saw this film and ..",
        "  text_a  a",
    ]
    _, out = doctor("--task_type=regression", train=["sun\t1234567.5"] * 9)
    assert out.splitlines()[1] == "  label   1234567.5"
    _, out = doctor("--task_type=multi", train=["sun\ta,b", *sound(20)])
    assert out.splitlines()[1] == "  label   a, b"
    assert first_rows.shown([], 80) == ""


def test_what_was_not_looked_for_is_not_said(doctor, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    tokens, labels = ("truncated texts", "unknown words"), ("doubtful labels",)

    def said(*flags):
        _, out = doctor(*flags, train=sound(80))
        return " ".join(out.partition("looked for:")[2].split())

    for flags, looked_for in [
        ([], ()),
        ([f"--vocab_file={vocab}"], tokens),
        (["--check_labels=true"], labels),
        ([f"--vocab_file={vocab}", "--check_labels=true"], tokens + labels),
    ]:
        text = said(*flags)
        assert "rows without text" in text
        assert {word for word in tokens + labels if word in text} == {*looked_for}


def test_words_are_counted_without_special_tokens(doctor, tmp_path):
    """As of a text alone, so of two: [CLS] and [SEP] are no words."""
    rows = [f"{'yes ' * 12}{n}.\tno no {n}\t{'ab'[n % 2]}" for n in range(10, 50)]

    def longest(*flags):
        _, out = doctor(*flags, train=rows)
        (line,) = [line for line in out.splitlines() if "100 % have" in line]
        assert "have at most (words)" in line
        return line.split()[-1]

    assert longest() == "14"
    assert longest("--text_b_column=1", "--label_column=2") == "17"


def test_labels_of_few_texts_cannot_be_checked(doctor):
    rows = [*sound(18), *[line[:-1] + "c" for line in sound(9, 50)]]
    _, out = doctor("--check_labels=true", train=rows)
    text = " ".join(out.split())
    said = "cannot check labels: fewer than two labels have 10 different texts or more"
    assert said in text and "0 rows" not in text
    assert "doubtful labels" not in text


def test_many_sets_have_several_tables(doctor, tmp_path):
    names = [f"set{number}" for number in range(5)]
    for number, name in enumerate(names):
        lines = "".join(f"{line}\n" for line in sound(16, 100 * (2 + number)))
        (tmp_path / f"{name}.tsv").write_text(lines)
    given = ",".join(f"{name}={tmp_path / name}.tsv" for name in names)
    sets = {"train": sound(40), "dev": sound(16, 100)}
    code, out = doctor(f"--eval_files={given}", **sets)
    assert code == 0, out
    tables = [block for block in out.split("\n\n") if "0 a " in block]
    headings = [block.strip().splitlines()[0].split() for block in tables]
    assert sum((line[1:] for line in headings), []) == ["train", "dev", *names]


def test_near_rows_by_place_and_label(doctor, tmp_path):
    train = [*sound(40), f"{LONG}\ta", f"{LONG.title()}!\ta", f"{LONG[1:]}\tb"]
    near = [line.replace("\t", ".\t") for line in sound(4)]
    page, dev = tmp_path / "page.html", [*sound(15, 100), *near, f"{LONG}s\tb"]
    code, out = doctor(f"--html={page}", train=train, dev=dev)
    assert code == 0
    rows = re.findall("<tr><td>(.*?)</td></tr>", page.read_text())
    pairs = [re.split("</td><td[^>]*>", row) for row in rows if "train.tsv:" in row]
    places = [
        (own.split(":")[-1], like.split(":")[-1]) for own, _, _, like, *_ in pairs
    ]
    assert places == [
        ("42", "41"),
        ("43", "41"),
        *zip(["16", "17", "18", "19", "20"], ["1", "2", "3", "4", "41"], strict=True),
    ]
    assert pairs[1][1:3] == ["b", LONG[1:]] and pairs[1][4:] == ["a", LONG]
    assert problems(out) == [
        "train.tsv:42 like 41: 1 row nearly repeating an earlier row, with the same"
        " label",
        "train.tsv:43 like 41: 1 row nearly repeating an earlier row, with another"
        " label",
        "dev.tsv:16 like 1, 17 like 2, 18 like 3 and 1 more: 4 rows (20.0%) nearly"
        " repeating a row of train.tsv, with the same label: a leak",
        "dev.tsv:20 like 41: 1 row (5.0%) nearly repeating a row of train.tsv, with"
        " another label",
    ]


@pytest.mark.parametrize(("right", "learns"), [(0.55, False), (0.75, True)])
def test_what_a_model_knows_by_luck_is_nothing(right, learns):
    """Of 100 rows, where 50 have the most common label."""
    doubts = LabelIssues(100, right, 0.5, found=[], needed=10)
    family = types.SimpleNamespace(doubts=lambda files, examples: doubts)
    assert suspect_labels.SuspectLabels([], family, None).learns == learns


def test_a_file_that_the_task_names_is_missed(doctor, tmp_path, capsys):
    code, out = doctor(train=sound(40), dev=sound(16, 100))
    assert code == 0 and "does not exist" not in out
    path = next(tmp_path.rglob("task.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"test": "tset.tsv"}))
    capsys.readouterr()
    code = task_data.main(["--task_name=mine", f"--data_dir={path.parent}"])
    out = capsys.readouterr().out
    assert code == 0 and any(
        "tset.tsv: the task names this file as test" in n for n in problems(out)
    )


def test_near_rows_with_numbers(doctor):
    train = [f"{n} films\t{n}.5" for n in range(30)]
    near = [f"{LONG}\t1.5", f"{LONG}!\t1.5", f"{LONG}?\t2.5"]
    code, out = doctor("--task_type=regression", train=[*train, *near])
    assert code == 0
    assert [line for line in problems(out) if "nearly" in line] == [
        "train.tsv:32 like 31: 1 row nearly repeating an earlier row, with the same"
        " label",
        "train.tsv:33 like 31: 1 row nearly repeating an earlier row, with another"
        " label",
    ]


def test_the_same_text_is_no_near_one(doctor):
    train = [*sound(40), sound(1)[0]]
    _, out = doctor(train=train, dev=[*sound(20, 100), sound(2)[1]])
    assert [line for line in problems(out) if "nearly" in line] == []
    assert len(problems(out)) == 2


def test_wrong_labels_are_listed_with_what_the_model_says(doctor, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    train = sound(60)
    train[10] = train[10][:-1] + "b"
    code, out = doctor("--check_labels=true", train=train, dev=sound(20, 100))
    assert code == 0
    (row,) = [line for line in out.splitlines() if "train.tsv:11 " in line]
    assert row.split()[1:3] == ["b", "a"] and "10 times I saw" in row
    assert "right on 98.8% of 80 rows" in " ".join(out.split())
    assert problems(out) == [
        "train.tsv:11: 1 row (1.7%) whose label looks wrong to a quick model: read it"
    ]
    tables = out.partition("\nlooked for")[0]
    assert all(len(line) <= 80 for line in tables.splitlines())


@pytest.mark.parametrize("columns", [60, 80, 130])
def test_long_labels_are_told_apart(doctor, tmp_path, monkeypatch, columns):
    """On a terminal by their ends; the page has them and the texts whole."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(suspect_labels, "_MOST_SHOWN", 3)
    names = {"a": "card_payment_fee_charged", "b": "card_payment_wrong_exchange_rate"}
    rows = [line[:-1] + names[line[-1]] for line in sound(200)]
    for n in range(0, 10, 2):
        rows[n] = rows[n].partition("\t")[0] + "\t" + names["b"]
    page = tmp_path / "page.html"
    code, out = doctor("--check_labels=true", f"--html={page}", train=rows)
    assert code == 0
    table = out.partition("labels that look wrong")[2].partition("\nlooked for")[0]
    lines = [line for line in table.splitlines() if "train.tsv:" in line]
    assert max(map(len, table.splitlines())) <= columns and len(lines) == 3
    for line in lines:
        _, own, said, probability, *_ = line.split()
        assert names["b"].endswith(own.strip("."))
        assert names["a"].endswith(said.strip(".")) and float(probability) > 0.3
    assert "and 2 more; --html=NAME.html" in table
    cells = re.findall("<tr>(.*?)</tr>", page.read_text(encoding="utf-8"))
    cells = [re.findall("<td[^>]*>(.*?)</td>", line) for line in cells]
    found = {int(row[0].rpartition(":")[2]): row[1:] for row in cells if len(row) == 5}
    assert {*found} == {*range(1, 11, 2)}
    for line, (own, said, _, text) in found.items():
        assert (own, said) == (names["b"], names["a"])
        assert text == rows[line - 1].partition("\t")[0]


def test_sentences_of_the_page_are_no_aligned_lines(doctor, tmp_path):
    page = tmp_path / "page.html"
    doctor(f"--html={page}", "--check_labels=true", train=sound(80))
    blocks = re.findall("<pre>(.*?)</pre>", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks and not [block for block in blocks if "checked" in block]
    assert not [block for block in blocks if "no label looks wrong" in block]


def test_rows_command_no_terminal(doctor):
    train = [line.replace("saw", "\x1b[2Jsaw") for line in sound(60)]
    train = [line.replace("\ta", "\ta\x1b]0;t\x07\u202e") for line in train]
    train[10] = train[10].partition("\t")[0] + "\tb"
    code, out = doctor("--check_labels=true", train=train)
    assert code == 0 and "I \\u001b[2Jsaw" in out and "a\\u001b]0;t" in out
    assert not {*"\x1b\x07\u202e"} & {*out}


def test_the_same_text_again_and_again_is_one_to_learn_from(doctor):
    """A reply that a machine writes: five folds of one text there are not."""
    rows = [*sound(40), *["thank you for your call\tc"] * 40]
    code, out = doctor("--check_labels=true", train=rows)
    assert code == 0 and "Traceback" not in out
    assert "train.tsv:42, 43, 44 and 36 more: 39 rows with the text" in out
    code, out = doctor("--check_labels=true", train=["a b\ta", "c d\tb"] * 20)
    assert code == 0 and "cannot check labels" in out
    code, out = doctor("--check_labels=true", train=sound(80))
    assert code == 0 and "no label looks wrong to a quick model, which is" in out


def test_a_model_that_learns_nothing_doubts_nothing(doctor):
    rows = [f"{line[:-1]}{'ab'[n % 3 == 0]}" for n, line in enumerate(sound(60))]
    _, out = doctor("--check_labels=true", train=rows)
    assert "cannot check labels: a quick model, right on" in out
    assert problems(out) == []


def test_labels_of_another_type_are_not_doubted(doctor):
    rows = [f"{line[:-1]}{n}" for n, line in enumerate(sound(20))]
    flags = ["--check_labels=true", "--task_type=regression"]
    code, out = doctor(*flags, train=rows)
    assert code == 2
    assert "--check_labels: mine is not of the type 'single'" in out
    assert "sizes" not in out  # refused before anything is read


def test_the_page_has_what_is_printed(doctor, tmp_path):
    page = tmp_path / "new" / "page.html"
    rows = [*sound(40), f"{LONG} <b>\ta", f"{LONG.title()} <b>!\ta"]
    code, out = doctor(f"--html={page}", train=rows, dev=sound(20, 100))
    assert code == 0 and f"wrote {page}" in out
    text = page.read_text(encoding="utf-8")
    found = problems(out)
    assert found and f"{len(found)} problem" in text and 'class="verdict bad"' in text
    shown = html.unescape(re.sub("<[^>]*>", "", text))
    for line in [*found, *out.partition("\nproblems:")[0].splitlines()]:
        assert line in shown.replace(str(tmp_path / "data") + "/", ""), line
    code, out = doctor(f"--html={page}", train=sound(40), dev=sound(20, 100))
    assert code == 0 and "no problems found" in page.read_text(encoding="utf-8")
    train = tmp_path / "data" / "train.tsv"
    before = train.read_bytes()
    code, out = doctor(f"--html={train}", train=sound(40))
    assert code == 2 and "exists and is no page of bert_mgpu doctor data" in out
    assert train.read_bytes() == before


def test_the_page_is_the_same_whatever_the_terminal(doctor, tmp_path, monkeypatch):
    pages = []
    for columns in (40, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        path = tmp_path / "page.html"
        code, out = doctor(f"--html={path}", train=[f"{LONG} {LONG}\ta", *sound(9)])
        assert code == 0, out
        assert ("from its f..\n" in out) == (columns == 40)
        pages.append(path.read_text(encoding="utf-8"))
    assert pages[0] == pages[1] and "100 % have at most (words)" in pages[0]


def test_a_page_is_written_of_rows_that_cannot_be_read(doctor, tmp_path):
    page = tmp_path / "page.html"
    code, out = doctor(f"--html={page}", train=[*sound(9), "no label"])
    assert code == 2 and "train.tsv:10" in out
    assert "train.tsv:10" in page.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_told_of_first(doctor, tmp_path):
    (tmp_path / "file").write_text("x")
    code, out = doctor(f"--html={tmp_path}/file/page.html", train=sound(9))
    assert code == 2 and "have at most" not in out and f"{tmp_path}/file" in out


def test_a_folder_and_the_page_of_a_run_are_no_page_of_the_doctor(doctor, tmp_path):
    report = tmp_path / "report.html"
    report.write_text(html_lib.page("A run", top="", sections=[]))
    before = report.read_bytes()
    pipe, link = tmp_path / "pipe", tmp_path / "link.html"
    os.mkfifo(pipe)
    link.symlink_to(report)
    for path, said in [
        (tmp_path, "a folder: "),
        (report, "exists and is no page of "),
        (pipe, "a link, a pipe or a device: "),
        (link, "a link, a pipe or a device: "),
    ]:
        code, out = doctor(f"--html={path}", train=sound(9))
        assert code == 2 and f"error: --html={path}: {said}" in out
        assert out.count("\n") == 1 and report.read_bytes() == before
    assert pipe.is_fifo() and link.is_symlink()
