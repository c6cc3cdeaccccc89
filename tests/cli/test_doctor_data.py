"""What `bert_mgpu doctor data` says of rows that were planted, and of sound ones."""

import json

import pytest

from bert_mgpu.cli.doctor import task_data

LONG = "the film is a joy from its first minute on"
SUBJECTS = ("film", "hotel", "phone", "book", "meal", "song", "game", "shirt")
ENDS = ("and so do all of my friends", "though it was not cheap at all")


def sound(count, start=0):
    """Lines of texts that are all different, and two labels."""
    return [
        f"{start + n} times I saw this {SUBJECTS[n % 8]} {ENDS[n % 2]}\t{'ab'[n % 2]}"
        for n in range(count)
    ]


@pytest.fixture
def doctor(tmp_path, capsys):
    """doctor(train=lines, ...) -> (exit code, all that is printed)."""

    def run(*flags, suffix="tsv", **sets):
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        for name, lines in sets.items():
            text = "".join(f"{line}\n" for line in lines)
            (data / f"{name}.{suffix}").write_text(text, encoding="utf-8")
        task = {name: f"{name}.{suffix}" for name in sets}
        columns = {"text_a": 0, "label": 1}
        if suffix == "jsonl":
            columns = {"text_a": "text", "label": "label"}
        (data / "task.json").write_text(json.dumps(task | columns))
        given = ["--task_name=mine", f"--data_dir={data}", *flags]
        code = task_data.main(given)
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).replace(f"{data}/", "")

    return run


def problems(out):
    return [line[2:] for line in out.splitlines() if line.startswith("- ")]


def test_nothing_is_said_of_sound_rows(doctor):
    code, out = doctor(train=sound(40), dev=sound(20, 100))
    assert code == 0 and problems(out) == [] and "no problems found" in out


def test_near_rows_by_place_and_label(doctor):
    train = [*sound(40), f"{LONG}\ta", f"{LONG.title()}!\ta", f"{LONG[1:]}\tb"]
    near = [line.replace("\t", ".\t") for line in sound(4)]
    code, out = doctor(train=train, dev=[*sound(15, 100), *near, f"{LONG}s\tb"])
    assert code == 0
    assert problems(out) == [
        "train.tsv:42 like 41: 1 row with nearly the text of an earlier row and its"
        " label",
        "train.tsv:43 like 41: 1 row with nearly the text of an earlier row and another"
        " label",
        "dev.tsv:16 like 1, 17 like 2, 18 like 3 and 1 more: 4 rows (20.0%) with nearly"
        " the text of a row of train.tsv, and its label: a leak",
        "dev.tsv:20 like 41: 1 row (5.0%) with nearly the text of a row of train.tsv,"
        " and another label",
    ]


def test_the_same_text_is_no_near_one(doctor):
    train = [*sound(40), sound(1)[0]]
    _, out = doctor(train=train, dev=[*sound(20, 100), sound(2)[1]])
    assert [line for line in problems(out) if "nearly" in line] == []
    assert len(problems(out)) == 2


def test_wrong_labels_are_listed_with_what_the_model_says(doctor):
    train = sound(60)
    train[10] = train[10][:-1] + "b"
    code, out = doctor("--check_labels=true", train=train, dev=sound(20, 100))
    assert code == 0
    (row,) = [line for line in out.splitlines() if "train.tsv:11 " in line]
    assert row.split()[1:3] == ["b", "a"] and "10 times I saw" in row
    assert "right in 98.8% of 80 rows" in " ".join(out.split())
    assert problems(out) == [
        "train.tsv:11: 1 row (1.7%) whose label a quick model doubts: read the first"
        " ones"
    ]
    assert all(len(line) <= 80 for line in out.splitlines() if line[:2] != "- ")


def test_a_model_that_learns_nothing_doubts_nothing(doctor):
    rows = [f"{line[:-1]}{'ab'[n % 3 == 0]}" for n, line in enumerate(sound(60))]
    _, out = doctor("--check_labels=true", train=rows)
    assert "labels are not doubted: a quick model is right in" in out
    assert problems(out) == []


def test_labels_of_another_type_are_not_doubted(doctor):
    rows = [f"{line[:-1]}{n}" for n, line in enumerate(sound(20))]
    flags = ["--check_labels=true", "--task_type=regression"]
    code, out = doctor(*flags, train=rows)
    assert code == 2
    assert "--check_labels: mine has no single label for a row" in out
