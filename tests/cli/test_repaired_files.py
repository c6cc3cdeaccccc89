"""Mended copies: names, encodings, lists, slots, and what a failure leaves."""

import json
import os
import shutil

import pytest

from bert_mgpu.cli.doctor import task_data

TRAIN = ["no\t天气 很好", "yes\t天气 不好", "no\t我们 去看 电影", "no\t天气 很好"]
DEV = ["yes\t电影 不好", "no\t我们 很好"]


@pytest.fixture
def task(tmp_path):
    """A task's folder, data; dev is test, too."""
    data = tmp_path / "data"
    data.mkdir()
    write(data / "train.tsv", TRAIN)
    write(data / "dev.tsv", DEV)
    names = {"train": "train.tsv", "dev": "dev.tsv", "test": "dev.tsv"}
    content = names | {"label": 0, "text_a": 1}
    (data / "task.json").write_text(json.dumps(content))
    return data


def write(path, lines, encoding="utf-8"):
    path.write_text("".join(f"{line}\n" for line in lines), encoding=encoding)


def vocabulary(folder):
    """The flag of one that has a straight quote and no curly one."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    write(folder / "vocab.txt", [*special, *'".，电影天气很不好看'])
    return f"--vocab_file={folder / 'vocab.txt'}"


@pytest.fixture
def doctor(task, tmp_path, capsys):
    """doctor(*flags) -> (exit code, what is printed); the copies are in new."""

    def run(*flags):
        code = task_data.main(
            [
                "--task_name=mine",
                f"--data_dir={task}",
                f"--repaired_dir={tmp_path / 'new'}",
                *flags,
            ]
        )
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


def test_a_file_of_sets_that_is_named_twice_is_written_once(doctor, task, tmp_path):
    given = [f"--predict_file={task / 'dev.tsv'}", f"--eval_files=later={task}/dev.tsv"]
    code, out = doctor(*given)
    assert code == 0, out
    assert (tmp_path / "new" / "dev.tsv").read_bytes() == (
        task / "dev.tsv"
    ).read_bytes()
    assert sum("wrote" in line and "dev.tsv" in line for line in out.splitlines()) == 1
    assert "1 row left out" in out
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "dev.tsv", ["no\t这个 电影"])
    shutil.rmtree(tmp_path / "new")
    code, out = doctor(f"--eval_files=later={tmp_path}/other/dev.tsv")
    assert code == 2 and "would have the same name: rename one" in out
    assert sorted(os.listdir(tmp_path)) == ["data", "other"]


def test_copies_of_linked_files_have_the_names_of_the_links(doctor, task, tmp_path):
    (tmp_path / "big").mkdir()
    (task / "train.tsv").rename(tmp_path / "big" / "train_v3.tsv")
    (task / "train.tsv").symlink_to(tmp_path / "big" / "train_v3.tsv")
    code, out = doctor()
    assert code == 0 and f"wrote {tmp_path}/new/train.tsv: 1 row left out" in out
    made = (tmp_path / "new" / "train.tsv").read_text(encoding="utf-8")
    assert made.splitlines() == TRAIN[:3]


@pytest.mark.parametrize("encoding", ["gbk", "utf-8"])
def test_a_file_to_predict_keeps_the_encoding_that_it_has(
    doctor, task, tmp_path, encoding
):
    """Of a task in another one, too."""
    content = json.loads((task / "task.json").read_text()) | {"encoding": "gbk"}
    (task / "task.json").write_text(json.dumps(content))
    write(task / "train.tsv", TRAIN, "gbk")
    write(task / "dev.tsv", DEV, "gbk")
    write(tmp_path / "new.tsv", ["no\t“很好”", *DEV], encoding)
    given = [vocabulary(tmp_path), f"--predict_file={tmp_path}/new.tsv"]
    code, out = doctor(*given)
    assert code == 0 and "typographic characters replaced in 1 row" in out, out
    made = (tmp_path / "new" / "new.tsv").read_text(encoding)
    assert made.splitlines() == ['no\t"很好"', *DEV]
    made = (tmp_path / "new" / "dev.tsv").read_text("gbk")
    assert made.splitlines() == DEV


@pytest.mark.parametrize("pretty", [False, True])
def test_the_last_object_of_a_list_leaves_its_end(doctor, task, tmp_path, pretty):
    """The file is the JSON that it was, without the commas of what is left out."""
    rows = [dict(zip(("label", "text"), row.split("\t"), strict=True)) for row in TRAIN]
    rows = [*rows, rows[1]]
    if pretty:
        text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    else:
        each = [json.dumps(row, ensure_ascii=False) for row in rows]
        text = "[\n" + ",\n".join(each) + "\n]\n"
    (task / "train.json").write_text(text, encoding="utf-8")
    content = {"train": "train.json", "label": "label", "text_a": "text"}
    (task / "task.json").write_text(json.dumps(content))
    code, out = doctor()
    assert code == 0 and "2 rows left out" in out, out
    made = json.loads((tmp_path / "new" / "train.json").read_text(encoding="utf-8"))
    assert made == rows[:3]


def test_a_full_disk_leaves_no_folder(doctor, task, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    code, out = doctor()
    assert code == 2 and "Traceback" not in out
    (line,) = [line for line in out.splitlines() if line.startswith("error: ")]
    assert line == (
        f"error: --repaired_dir={tmp_path}/new: cannot write there: No space left on"
        " device: pass another folder"
    )
    assert os.listdir(tmp_path) == ["data"]


def test_the_slots_of_ads_stay(task, tmp_path, capsys):
    """They are runs of a sign that the vocabulary lacks."""
    rows = ["1\tx\t好看\t电影““，很“好”…", "0\tx\t不好\t天气““，不“好”"]
    for name in ("train_0620.txt", "eval_0620.txt"):
        write(task / name, rows)
    given = [vocabulary(tmp_path), f"--repaired_dir={tmp_path}/new"]
    code = task_data.main(["--task_name=ad", f"--data_dir={task}", *given])
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "use those instead" in line]
    assert code == 0 and ": ” … become [UNK], " in line
    made = (tmp_path / "new" / "eval_0620.txt").read_text(encoding="utf-8")
    assert made.splitlines()[0] == '1\tx\t好看\t电影““，很“好"...'


def test_the_slots_of_rewriting_stay(task, tmp_path, capsys):
    """Also one that the vocabulary lacks; the file to predict has no target."""
    rows = ["s\tt", *(f"很 … 看{n}\t很 好 看{n}" for n in range(4)), "好”\t好"]
    write(task / "train.tsv", rows)
    write(task / "dev.tsv", ["s\tt", "天 … 好\t天 气 好"])
    write(task / "new.tsv", ["s", "天 … 好”"])
    names = {"train": "train.tsv", "dev": "dev.tsv", "type": "rewrite"}
    names |= {"text_a": "s", "target": "t", "slot_marker": "…"}
    (task / "task.json").write_text(json.dumps(names))
    given = [vocabulary(tmp_path), f"--repaired_dir={tmp_path}/new"]
    given += [f"--predict_file={task}/new.tsv", f"--data_dir={task}"]
    code = task_data.main(["--task_name=mine", *given])
    out = capsys.readouterr()
    assert code == 0, out
    made = (tmp_path / "new" / "train.tsv").read_text("utf-8")
    assert made.splitlines()[1:] == [*rows[1:5], '好"\t好']
    assert (tmp_path / "new" / "new.tsv").read_text("utf-8") == 's\n天 … 好"\n'


def test_a_page_is_not_written_to_the_new_folder(doctor, tmp_path):
    code, out = doctor(f"--html={tmp_path}/new/page.html")
    assert code == 2 and not (tmp_path / "new").exists()
    assert "will be a new folder: pass another place for the page" in out


def test_a_name_that_is_too_long_is_told_of_its_flag(doctor):
    code, out = doctor(f"--repaired_dir={'x' * 300}")
    assert code == 2 and "--repaired_dir=xx" in out and "File name too long" in out


def test_no_label_loses_all_its_rows(doctor, task, tmp_path):
    """Else dev, which has the same text, could not be read any more."""
    write(task / "train.tsv", [*TRAIN, "new\t这个 电影"])
    write(task / "dev.tsv", [*DEV, "new\t这个 电影"])
    code, out = doctor()
    assert code == 0 and "1 row left out" in out
    said = "1 repeated, 1 in other files, 1 of which stay: no other rows have their"
    assert said in " ".join(out.split())
    assert "new\t这个 电影\n" in (tmp_path / "new" / "train.tsv").read_text("utf-8")


def test_rows_with_nearly_a_text_of_dev_and_another_label_stay(doctor, task, tmp_path):
    text = "我们 昨天 去 电影院 看了 那部 关于 天气 的 很长 很长 的 电影"
    write(task / "train.tsv", [*TRAIN, f"no\t{text}！", f"yes\t{text}？"])
    write(task / "dev.tsv", [*DEV, f"yes\t{text}。"])
    code, out = doctor()
    assert code == 0 and "1 repeated, 1 in other files" in out
    made = (tmp_path / "new" / "train.tsv").read_text("utf-8")
    assert f"no\t{text}！" in made and f"yes\t{text}？" not in made


@pytest.fixture
def entities(tmp_path):
    """entities(rows of train, rows of dev) -> the lines of train in the mended copy.

    A row: a text, and its first character's type, "" if it is no entity.
    """
    data = tmp_path / "entities"

    def run(*sets):
        data.mkdir()
        for name, rows in zip(("train", "dev"), sets, strict=True):
            lines = [
                {"text": text, "label": [[0, 1, kind]] if kind else []}
                for text, kind in rows
            ]
            write(data / f"{name}.jsonl", [*map(json.dumps, lines)])
        content = {"type": "tags", "train": "train.jsonl", "dev": "dev.jsonl"}
        (data / "task.json").write_text(json.dumps(content))
        new = tmp_path / "new"
        flags = ["--task_name=mine", f"--data_dir={data}", f"--repaired_dir={new}"]
        assert task_data.main(flags) == 0
        kept = (new / "train.jsonl").read_text().splitlines()
        return [json.loads(line)["text"] for line in kept]

    return run


def test_no_type_of_entities_loses_all_its_rows(entities, capsys):
    rows = [("Anna went home", "PER"), ("Rome is old", "LOC"), ("it rains", "")]
    assert entities(rows, rows[:2]) == [text for text, _ in rows]
    said = "0 repeated, 2 in other files, 2 of which stay: no other rows have their"
    assert said in " ".join(capsys.readouterr().out.split())


def test_nearly_a_text_of_dev_with_other_entities_stays(entities):
    text = "nobody knows how long the road through the mountains really is"
    rows = [(f"{text}!", "PER"), ("Anna went home", "PER"), (f"{text}?", "LOC")]
    left = entities([*rows, ("Rome is old", "LOC")], [(f"{text}.", "LOC")])
    assert left == [f"{text}!", "Anna went home", "Rome is old"]


def test_groups_keep_their_rows(task, tmp_path, capsys):
    rows = ["g\tt\tl"]
    for group in range(6):
        rows += [f"{group}\t天气 很好\tyes", f"{group}\t第{group} 电影\tno"]
    write(task / "train.tsv", rows)
    names = {"train": "train.tsv", "text_a": "t", "label": "l", "group": "g"}
    (task / "task.json").write_text(json.dumps(names | {"labels": ["no", "yes"]}))
    given = [f"--data_dir={task}", f"--repaired_dir={tmp_path}/new"]
    assert task_data.main(["--task_name=mine", *given]) == 0, capsys.readouterr()
    made = (tmp_path / "new" / "train.tsv").read_text("utf-8")
    assert made.splitlines() == rows


TAGGED = ["a B-X", "b O", "", "c O"]


@pytest.mark.parametrize("flag", ["test.txt", "--predict_file="])
def test_labels_beside_predictions_end_nothing(doctor, task, tmp_path, flag):
    """A run tolerates them, and the copy has all rows."""
    write(task / "train.txt", TAGGED)
    write(task / "test.txt", ["d O", "", "e I-X", "", "“f O"])
    content = {"type": "tags", "train": "train.txt"}
    if flag == "test.txt":
        content["test"], given = flag, []
    else:
        given = [f"{flag}{task / 'test.txt'}"]
    (task / "task.json").write_text(json.dumps(content))
    code, out = doctor(*given)
    assert code == 0, out
    (first, second) = [line for line in out.splitlines() if "test.txt" in line][:2]
    assert f"{task}/test.txt:3: " in first
    assert "predictions have no labels beside them" in second
    made = (tmp_path / "new" / "test.txt").read_bytes()
    assert made == (task / "test.txt").read_bytes()


def test_texts_that_cannot_be_read_end_a_prediction(doctor, task, tmp_path):
    (task / "new.csv").write_text("no,a,“b”,c\nyes,b\nyes\n", encoding="utf-8")
    code, out = doctor(f"--predict_file={task}/new.csv")
    assert code == 2 and f"{task}/new.csv:3: " in out
    assert "1 fault in rows that cannot be read: prediction would stop there" in out
    write(task / "train.tsv", [*TRAIN, "no"])
    code, out = doctor(f"--predict_file={task}/new.csv")
    assert "2 faults in rows that cannot be read: training would stop there" in out
    assert not (tmp_path / "new").exists()
