"""A trained folder is enough: it predicts new files where its data no longer exists."""

import json
import os
import shutil

import pytest

from tests.support.runs import assert_refused
from tests.support.tiny import rows

PREDICTED = ("predict.txt", "test_results.tsv", "predictions.jsonl")
NAMES = ("no", "yes")


def csv(label, a, b, number):
    return f'"{a}, {b}",{NAMES[label]},n{number}'


def tsv(label, a, b, number):
    return f"{number}\t{a}\t{NAMES[label]}\t{b}"


def several(label, a, b, number):
    labels = [["no"], ["no", "yes"], []][number % 3]
    return json.dumps({"text": a, "tags": labels}, ensure_ascii=False)


def value(label, a, b, number):
    return f"{label - 0.5}\t{a}"


def as_parquet(path, lines):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist([*map(json.loads, lines)]), str(path))


# Name -> task.json, first line, a line of (label, text, text, number), suffix, flags.
OWN = {
    "csv": (
        {"text_a": "text", "label": "y", "id": "id", "encoding": "gbk"},
        ["text,y,id"],
        csv,
        ".csv",
        {"threshold": 0.4},
    ),
    "pairs": ({"text_a": 1, "text_b": 3, "label": 2}, [], tsv, ".tsv", {}),
    "multi": (
        {"text_a": "text", "label": "tags", "type": "multi", "labels": [*NAMES]},
        [],
        several,
        ".jsonl",
        {"threshold": "thresholds.tsv"},
    ),
    "parquet": ({"text_a": "text", "label": "tags", "type": "multi"}, [], several,
                ".parquet", {}),
    "regression": (
        {"text_a": 1, "label": 0, "type": "regression"},
        [],
        value,
        ".tsv",
        {"truncation": "head_tail", "head_tokens": 3},
    ),
}  # fmt: skip


def write_own(folder, case):
    task, first, line_of, suffix, _ = OWN[case]
    folder.mkdir()
    for seed, (split, count) in enumerate([("train", 24), ("dev", 9), ("new", 11)]):
        lines = [line_of(*row, number) for number, row in enumerate(rows(count, seed))]
        path = folder / f"{split}{suffix}"
        if suffix == ".parquet":
            as_parquet(path, lines)
        else:
            encoding = task.get("encoding", "utf-8")
            path.write_text("\n".join([*first, *lines, ""]), encoding=encoding)
    named = {"train": f"train{suffix}", "dev": f"dev{suffix}"}
    (folder / "task.json").write_text(json.dumps({**named, **task}))
    (folder / "thresholds.tsv").write_text("no\t0.3\nyes\t0.6\n")
    return folder / f"new{suffix}"


def written(folder):
    return {name: (folder / name).read_bytes() for name in PREDICTED}


@pytest.fixture
def alone(inside, tmp_path):
    """alone(folder, file, **flags) -> the files that a folder predicts with no task."""

    def run(folder, file, **flags):
        flags = {"output_dir": folder, "do_predict": True, "predict_file": file} | flags
        args = [f"--{name}={str(v).lower() if v is True else v}"
                for name, v in {**flags, "xla": "off"}.items()]  # fmt: skip
        code, _, err = inside(args)
        assert code == 0, err
        return written(folder)

    return run


def copied(folder, place):
    """The folder elsewhere, without predictions or cached rows."""
    copy = shutil.copytree(folder, place)
    shutil.rmtree(copy / "cache", ignore_errors=True)
    for name in PREDICTED:
        (copy / name).unlink(missing_ok=True)
    return copy


def trained_on(inside, tiny, tmp_path, case, data, file, **flags):
    """A training with best weights and an export -> its output_dir and predictions."""
    out = tmp_path / "out"
    args = tiny.flags(
        out,
        case,
        data_dir=data,
        do_train=True,
        do_predict=True,
        predict_file=file,
        eval_steps=3,
        export_hf=tmp_path / "hf",
        **flags,
    )
    code, _, err = inside(args)
    assert code == 0, err
    return out, written(out)


@pytest.mark.parametrize("case", [*OWN])
def test_own_tasks(tiny, tmp_path, inside, alone, monkeypatch, case):
    data = tmp_path / "data"
    new, flags = write_own(data, case), dict(OWN[case][4])
    if flags.get("threshold") == "thresholds.tsv":
        flags["threshold"] = data / "thresholds.tsv"
    out, wanted = trained_on(inside, tiny, tmp_path, case, data, new, **flags)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = shutil.copy(new, elsewhere / new.name)
    shutil.rmtree(data)
    monkeypatch.chdir(elsewhere)
    assert alone(copied(out, elsewhere / "model"), file) == wanted
    assert alone(elsewhere / "hub", file, init_checkpoint=tmp_path / "hf") == wanted
    best = alone(copied(out / "best", elsewhere / "best"), file)
    assert best == alone(copied(out, elsewhere / "again"), file, use_best=True)


@pytest.mark.parametrize("case", ["mrpc", "cola", "high_level"])
def test_built_in_tasks(tiny, tmp_path, inside, alone, case):
    new = tmp_path / ("new.txt" if case == "high_level" else "new.tsv")
    lines = {
        "mrpc": ["Quality\t1\t2\tA\tB", "0\t1\t2\tsun joy\train", "1\t1\t2\tof\tthe"],
        "cola": ["index\tsentence", "0\tsun joy", "1\train in it"],
        "high_level": ["a\tb\t1\tsun joy", "a\tb\t0\t坏 旧"],
    }[case]
    new.write_text("".join(f"{line}\n" for line in lines))
    data = tiny.data(case)
    out, wanted = trained_on(inside, tiny, tmp_path, case, data, new)
    assert alone(copied(out, tmp_path / "model"), new) == wanted
    assert alone(tmp_path / "hub", new, init_checkpoint=tmp_path / "hf") == wanted


def test_a_converted_folder(tiny, tmp_path, inside, alone, started):
    from bert_mgpu.cli import convert

    data = tmp_path / "data"
    new = write_own(data, "csv")
    out, wanted = trained_on(inside, tiny, tmp_path, "csv", data, new, threshold=0.4)
    for flag, name in (("export_google", "google"), ("export_hf", "converted")):
        args = [f"--init_checkpoint={out}", f"--{flag}={tmp_path / name}"]
        assert convert.main(args) == 0
        predicted = alone(tmp_path / f"by-{name}", new,
                          init_checkpoint=tmp_path / name)  # fmt: skip
        assert predicted == wanted


def without_task(folder):
    """As an earlier version has left it."""
    facts = json.loads((folder / "run.json").read_text())
    del facts["task"]
    (folder / "run.json").write_text(json.dumps(facts))


def test_a_folder_of_an_earlier_version_needs_the_data_once(tiny, tmp_path, inside,
                                                            alone):  # fmt: skip
    data = tmp_path / "data"
    new = write_own(data, "pairs")
    out, wanted = trained_on(inside, tiny, tmp_path, "pairs", data, new)
    old = copied(out, tmp_path / "old")
    without_task(old)
    args = [f"--output_dir={old}", "--do_predict=true", f"--predict_file={new}"]
    assert_refused(inside(args), "--task_name is missing", "--data_dir")
    assert alone(old, new, task_name="pairs", data_dir=data) == wanted
    os.rename(data, tmp_path / "away")
    again = shutil.copy(tmp_path / "away" / new.name, tmp_path / new.name)
    assert alone(old, again) == wanted


def test_flags_win_over_what_was_trained(tiny, tmp_path, inside, alone):
    """A file with other columns, in another encoding, is read by its own flags."""
    data = tmp_path / "data"
    new = write_own(data, "csv")
    out, wanted = trained_on(inside, tiny, tmp_path, "csv", data, new)
    lines = [line.split(",") for line in new.read_text("gbk").splitlines()[1:]]
    texts = [",".join(cells[:-2]).strip('"') for cells in lines]
    other = tmp_path / "other.jsonl"
    records = ({"body": text, "id": f"n{i}"} for i, text in enumerate(texts))
    other.write_text("".join(json.dumps(record) + "\n" for record in records))
    flags = {"text_a_column": "body", "encoding": "utf-8"}
    predicted = alone(copied(out, tmp_path / "model"), other, **flags)
    assert predicted["predict.txt"] == wanted["predict.txt"]


def test_new_texts_may_be_utf_8_where_the_training_was_not(
    tiny, tmp_path, inside, alone
):
    data = tmp_path / "data"
    new = write_own(data, "csv")
    out, wanted = trained_on(inside, tiny, tmp_path, "csv", data, new)
    other = tmp_path / "utf_8.csv"
    other.write_text(new.read_text("gbk"), "utf-8")
    predicted = alone(copied(out, tmp_path / "model"), other)
    assert predicted["predict.txt"] == wanted["predict.txt"]


def test_other_sets_need_the_data(tiny, tmp_path, inside):
    data = tmp_path / "data"
    new = write_own(data, "csv")
    out, _ = trained_on(inside, tiny, tmp_path, "csv", data, new)
    for asked in ("do_eval", "do_predict"):
        args = [f"--output_dir={out}", f"--{asked}=true"]
        assert_refused(inside(args), "--data_dir is missing")
    (data / "task.json").unlink()  # the columns are known
    args = [f"--output_dir={out}", "--do_eval=true", f"--data_dir={data}"]
    code, _, err = inside(args)
    assert code == 0 and "9 examples of" in err


DAMAGE = {
    "a list": [],
    "an unknown key": {"name": "csv", "text_a": "text", "command": "x"},
    "a file elsewhere": {"name": "csv", "text_a": "text", "dev": "../../etc/passwd"},
    "no text": {"name": "csv"},
    "a wrong type": {"name": "csv", "text_a": 1.5},
    "an unknown flag": {"name": "csv", "text_a": "text", "flags": {"shell": "x"}},
    "a flag's value": {"name": "csv", "text_a": "text", "flags": {"threshold": 4}},
    "no name": {"text_a": "text"},
    "a flag of another kind": {
        "name": "csv",
        "text_a": "text",
        "flags": {"do_train": True},
    },
    "a flag that names a file": {
        "name": "csv",
        "text_a": "text",
        "flags": {"threshold": "elsewhere"},
    },
    "flags that are a list": {"name": "csv", "text_a": "text", "flags": []},
    "a name that is no text": {"name": {"a": 1}, "text_a": "text"},
}


@pytest.mark.parametrize("damage", [*DAMAGE])
def test_a_damaged_task_is_refused(trained, tmp_path, inside, damage):
    model = shutil.copytree(trained("own"), tmp_path / "model")
    facts = json.loads((model / "run.json").read_text())
    facts["task"] = DAMAGE[damage]
    (model / "run.json").write_text(json.dumps(facts))
    file = tmp_path / "new.tsv"
    file.write_text("0\tsun\n")
    args = [f"--output_dir={model}", "--do_predict=true", f"--predict_file={file}"]
    assert_refused(inside(args), "run.json")
