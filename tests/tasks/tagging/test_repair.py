"""Mended copies of labelled files, by `bert_mgpu doctor data --repaired_dir`."""

import gzip
import json

import pytest

from bert_mgpu.cli.doctor import task_data
from bert_mgpu.tasks.tagging import repair

CONLL = (
    "-DOCSTART- O\n\nEU  NNP I-ORG\nis VBZ O\n\n\n甲\tN\t0\n乙\tN\tI-LOC\n丙\tN\tI-ORG"
)
MENDED = CONLL.replace("I-", "B-").replace("\t0", "\tO") + "\n"


@pytest.fixture
def doctor(tmp_path, capsys):
    """doctor(name, bytes, **flags) -> (exit code, lines, the new folder)."""

    def run(name, content, **flags):
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        (data / name).write_bytes(content)
        values = {"task_name": "mine", "task_type": "tags", "train_file": name,
                  "data_dir": data, "repair_bio": "begin",
                  "repaired_dir": tmp_path / "new", **flags}  # fmt: skip
        argv = [f"--{key}={value}" for key, value in values.items() if value]
        code = task_data.main(argv)
        printed = capsys.readouterr()
        assert (data / name).read_bytes() == content
        return code, printed.out + printed.err, tmp_path / "new"

    return run


@pytest.mark.parametrize(
    ("repair_bio", "wanted"),
    [
        ("begin", MENDED),
        ("outside", MENDED.replace("B-ORG", "O").replace("B-LOC", "O")),
    ],
)
def test_tags_alone_are_mended(doctor, repair_bio, wanted):
    code, out, new = doctor("train.txt", CONLL.encode(), repair_bio=repair_bio)
    assert code == 0 and f"wrote {new / 'train.txt'}" in out
    assert (new / "train.txt").read_text() == wanted


def test_the_new_folder_is_a_task(doctor, tmp_path):
    """With its task.json, and a test file whose tags are mended, too."""
    content = b"a I-X\nb O\n"
    task = {"type": "tags", "train": "train.txt", "test": "test.txt"}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "task.json").write_text(json.dumps(task))
    (tmp_path / "data" / "test.txt").write_bytes(content)
    code, out, new = doctor("train.txt", content, task_type=None, train_file=None)
    assert code == 0 and "copied task.json" in out
    for name in ("train.txt", "test.txt"):
        assert (new / name).read_text() == "a B-X\nb O\n"
    assert json.loads((new / "task.json").read_text()) == task


def test_the_encoding_stays_and_a_packed_file_is_packed(doctor):
    content = gzip.compress(CONLL.encode("gbk"))
    code, _, new = doctor("train.txt.gz", content, encoding="gbk")
    assert code == 0
    mended = gzip.decompress((new / "train.txt.gz").read_bytes())
    assert mended.decode("gbk") == MENDED


def test_the_notation_of_a_file_stays(doctor):
    code, _, new = doctor("train.txt", b"a O\nb I-X\nc E-X\n\nd S-X\n")
    assert code == 0
    assert (new / "train.txt").read_text() == "a O\nb B-X\nc E-X\n\nd S-X\n"


def test_sound_rows_stay_as_they_are(doctor):
    """In their own notation; only the sentence with a fault is written anew."""
    sound = "a B-X\nb M-X\nc E-X\nd U-X\n\na B_X\nb E_X\n\n"
    code, _, new = doctor("train.txt", f"{sound}e I-X\nf E-X\n".encode())
    assert code == 0
    assert (new / "train.txt").read_text() == f"{sound}e B-X\nf E-X\n"


def test_sound_spans_stay_as_they_are(doctor):
    sound = '{"label": {"A": {"New": [[3, 5]]}},  "text": "In New York"}\n'
    faulty = {"text": "In New York", "label": [[3, 11, "A"], [3, 6, "B"]]}
    code, _, new = doctor("train.json", (sound + json.dumps(faulty) + "\n").encode())
    assert code == 0
    lines = (new / "train.json").read_text().splitlines(keepends=True)
    assert lines[0] == sound
    assert json.loads(lines[1])["label"] == [[3, 11, "A"]]


@pytest.mark.parametrize("pretty", [True, False])
def test_a_list_stays_one(doctor, pretty):
    sound = {"text": "In York", "label": [[3, 7, "A"]]}
    faulty = {"text": "In New York", "label": [[3, 11, "A"], [3, 6, "B"]]}
    rows = [sound, faulty, sound]
    lines = ",\n".join(json.dumps(row) for row in rows)
    content = json.dumps(rows, indent=1) if pretty else f"[\n{lines}\n]\n"
    code, out, new = doctor("train.json", content.encode())
    assert code == 0, out
    faulty["label"] = [[3, 11, "A"]]
    # The repeated row is left out as well.
    assert json.loads((new / "train.json").read_text()) == rows[:2]
    code, _, new = doctor("train.json", content.encode(), repaired_dir=f"{new}2")
    same = [line for line in content.splitlines() if "In York" in line]
    assert same[0] in (new.parent / "new2" / "train.json").read_text()


def test_a_line_between_documents_has_no_tag(doctor):
    content = b"-DOCSTART-\n\nEU I-X NNP\nis O VBZ\n"
    code, _, new = doctor("train.txt", content, label_column=1)
    assert code == 0
    mended = (new / "train.txt").read_bytes()
    assert mended == content.replace(b"I-X", b"B-X")


def test_spans_that_overlap(doctor):
    record = {"id": 7, "text": "In New York", "label": [[3, 11, "A"], [3, 6, "B"]]}
    content = json.dumps(record, indent=1).encode()
    code, _, new = doctor("train.json", content)
    assert code == 0
    record["label"] = [[3, 11, "A"]]
    assert json.loads((new / "train.json").read_text()) == record


REFUSED = [
    ({}, b"a Q-X\n\nb B-X\n", "1 fault in rows that cannot be read"),
]


@pytest.mark.parametrize(("flags", "content", "message"), REFUSED)
def test_nothing_is_written_where_it_is_refused(doctor, flags, content, message):
    code, out, new = doctor("train.txt", content, **flags)
    assert code == 2 and message in out and not new.exists()


def test_an_earlier_folder_is_not_written_to(doctor, tmp_path):
    (tmp_path / "new").mkdir()
    code, out, new = doctor("train.txt", CONLL.encode())
    assert code == 2 and "it exists already" in out and [*new.iterdir()] == []


def test_cells_are_joined_as_they_were():
    for line in ("a  b c", "a\t b\tc", "a", "\ta"):
        assert "".join(repair._cells(line)) == line


def test_repeated_sentences_are_left_out_with_their_lines(doctor):
    content = b"a b\n\nEU B-X\nis O\n\nno O\n\nEU B-X\nis O\n\nend O\n"
    content = content.replace(b"a b\n", b"a O\n")
    code, out, new = doctor("train.txt", content, repair_bio=None)
    assert code == 0 and "1 row left out" in out
    wanted = "a O\n\nEU B-X\nis O\n\nno O\n\nend O\n"
    assert (new / "train.txt").read_text() == wanted
