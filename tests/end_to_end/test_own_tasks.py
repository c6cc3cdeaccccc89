"""A user's own files: formats, types of labels, what is written of them."""

import gzip
import json

import numpy as np
import pytest

from tests.support.runs import assert_refused, tree
from tests.support.tiny import TASK_JSON, rows, write_task

NAMES = ("no", "yes")
# Of the labels of a row, 0 or 1: what stands in a file.
LABELS = {
    "single": lambda label: NAMES[label],
    "multi": lambda label: ("", "good|any", "any")[label],
    "regression": lambda label: str(label - 0.5),
}
SPLITS = {"train": 96, "dev": 13, "test": 11}


@pytest.fixture
def own(tiny, tmp_path, inside):
    """own(...) -> the output_dir of a run on files of this format and type."""

    class Own:
        data = tmp_path / "data"

        def __init__(self):
            self.inside = inside

        def write(self, suffix, text_of, packed=False):
            self.data.mkdir(exist_ok=True)
            for seed, (split, count) in enumerate(SPLITS.items()):
                actual = rows(count, seed)
                content = text_of(split, actual)
                path = self.data / f"{split}{suffix}"
                path.write_bytes(gzip.compress(content) if packed else content)

        def run(self, name, **flags):
            flags = {"do_train": True, "do_eval": True, "do_predict": True, **flags}
            flags = {"num_train_epochs": 6, "data_dir": self.data, **flags}
            out = tmp_path / name
            code, _, err = inside(tiny.flags(out, "mine", **flags))
            assert code == 0, err
            return out, err

    return Own()


def as_json(split, found):
    records = ({"y": NAMES[y], "a": a, "b": b, "i": f"{split}{n}"}
               for n, (y, a, b) in enumerate(found))  # fmt: skip
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def as_csv(split, found):
    lines = [f'"{a}",{NAMES[y]},{split}{n},"{b}"' for n, (y, a, b) in enumerate(found)]
    return "\n".join(["a,y,i,b", *lines, ""]).encode("gbk")


def as_tsv(split, found):
    lines = [f"{split}{n}\t{b}\t{a}\t{NAMES[y]}" for n, (y, a, b) in enumerate(found)]
    return "\r\n".join(lines).encode()


BY_NAME = {"text_a": "a", "text_b": "b", "label": "y", "id": "i"}
BY_NUMBER = {"text_a": 2, "text_b": 1, "label": -1, "id": 0}


def test_all_formats_are_the_same_rows(own, tmp_path):
    """By task.json or by flags: the same weights, and the same files."""
    own.write(".jsonl.gz", as_json, packed=True)
    own.write(".csv", as_csv)
    own.write(".txt", as_tsv)
    files = {split: f"{split}.jsonl.gz" for split in SPLITS}
    (own.data / "task.json").write_text(json.dumps({**files, **BY_NAME}))
    first, output = own.run("first", num_train_epochs=1)
    assert "is the header" not in output  # JSON Lines have none
    (own.data / "task.json").unlink()
    flags = {f"{name}_column": column for name, column in BY_NAME.items()}
    files = {f"{split}_file": f"{split}.csv" for split in SPLITS}
    flags |= {"num_train_epochs": 1, "encoding": "GBK"}
    second, output = own.run("second", **files, **flags)
    assert "train  96 examples of" in output and "(line 1 is the header)" in output
    flags = {f"{name}_column": column for name, column in BY_NUMBER.items()}
    files = {f"{split}_file": own.data / f"{split}.txt" for split in SPLITS}
    flags |= {"num_train_epochs": 1, "data_dir": tmp_path}
    third, _ = own.run("third", **files, **flags)
    for name in ("predict.txt", "test_results.tsv", "eval_results.txt"):
        wanted = (first / name).read_bytes()
        assert wanted == (second / name).read_bytes() == (third / name).read_bytes()
    for out, header in ((first, 0), (second, 1), (third, 0)):
        records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
        assert [one["id"] for one in records] == [f"test{n}" for n in range(11)]
        assert [one["line"] for one in records] == [n + 1 + header for n in range(11)]


def test_several_labels(own):
    own.write(".tsv", lambda _, found: "".join(
        f"{a}\t{LABELS['multi'](y)}\n" for y, a, _ in found).encode())  # fmt: skip
    task = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    task |= {"text_a": 0, "label": 1, "type": "multi", "label_separator": "|"}
    (own.data / "task.json").write_text(json.dumps(task))
    out, output = own.run("out", num_train_epochs=20, class_weights="balanced")
    assert (out / "label_list.txt").read_text() == "any\ngood\n"
    assert "weights in the loss: any 1, good 1" in output
    assert "micro mean" in output
    lines = (out / "predict.txt").read_text().split("\n")[:-1]
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    shares = np.loadtxt(out / "test_results.tsv")
    assert shares.shape == (11, 2)
    for line, record, row in zip(lines, records, shares, strict=True):
        chosen = [str(index) for index, share in enumerate(row) if share >= 0.5]
        assert line == ",".join(chosen)
        assert record["label"] == [("any", "good")[int(index)] for index in chosen]
        assert [*record["probabilities"].values()] == pytest.approx(row, abs=1e-6)
    wanted = ["0,1" if label else "" for label, *_ in rows(11, 2)]
    assert sum(map(str.__eq__, lines, wanted)) >= 9  # it has learnt
    scores = (out / "eval_results.txt").read_text()
    assert scores.startswith("eval_accuracy = ") and "mean_average_precision" in scores
    before = tree(out)
    later, _ = own.run("out", do_train=False, do_eval=False, threshold=0.0)
    assert (later / "predict.txt").read_text() == "0,1\n" * 11
    changed = {name for name, digest in tree(out).items() if before.get(name) != digest}
    assert changed == {"predict.txt", "predictions.jsonl"}


@pytest.mark.parametrize("padding", ["longest", "pack"])
def test_a_number(own, padding):
    own.write(".csv", lambda _, found: "".join(
        f"{y - 0.5},{a}\n" for y, a, _ in found).encode())  # fmt: skip
    files = {f"{split}_file": f"{split}.csv" for split in SPLITS}
    flags = {"label_column": 0, "text_a_column": 1, "task_type": "regression"}
    flags |= {"num_train_epochs": 12, "padding": padding}
    out, output = own.run("out", **files, **flags)
    assert "pearson 0." in output and not (out / "label_list.txt").exists()
    values = np.loadtxt(out / "predict.txt")
    wanted = [label - 0.5 for label, *_ in rows(11, 2)]
    assert np.corrcoef(values, wanted)[0, 1] > 0.8  # it has learnt
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    assert [one["value"] for one in records] == [*values]
    assert (out / "test_results.tsv").read_text() == (out / "predict.txt").read_text()


def test_weights_of_classes_change_what_is_learnt(own):
    """A label that counts for more is given more often."""
    own.write(".txt", as_tsv)
    flags = {f"{name}_column": column for name, column in BY_NUMBER.items()}
    flags |= {f"{split}_file": f"{split}.txt" for split in SPLITS}
    (own.data / "weights.tsv").write_text("no\t1\nyes\t50\n")
    flags |= {"num_train_epochs": 1, "learning_rate": 1e-4}
    weights = own.data / "weights.tsv"
    out, output = own.run("out", **flags, class_weights=weights)
    assert "weights in the loss: no 1, yes 50" in output
    as_json = {"class_weights": '{"no": 1, "yes": 50}'}
    same, output = own.run("json", **flags, **as_json)
    assert "weights in the loss: no 1, yes 50" in output
    values = [(folder / "test_results.tsv").read_text() for folder in (out, same)]
    assert values[0] == values[1]
    plain, _ = own.run("plain", **flags)

    def share_of_yes(folder):
        return np.loadtxt(folder / "test_results.tsv")[:, 1].mean()

    assert share_of_yes(out) > share_of_yes(plain)


def test_what_is_not_asked_for_need_not_be_there(own, tmp_path):
    """Files without labels are predicted; a training needs no dev file."""
    write_task(tmp_path / "files", "own")
    own.write(".txt", as_tsv)
    flags = {"text_a_column": 2, "label_column": 3, "train_file": "train.txt"}
    flags |= {"do_eval": False, "do_predict": False}
    own.run("out", **flags)
    unlabelled = tmp_path / "texts.csv"
    unlabelled.write_text("a\nb\n,\n")
    flags |= {"do_train": False, "do_predict": True, "text_a_column": 0}
    out, _ = own.run("out", **flags, predict_file=unlabelled)
    assert len((out / "predict.txt").read_text().splitlines()) == 3


PLANTED = "yes\tsun\nno\tsun\nyes\train wind\n"


def test_a_training_warns_of_what_is_likely_wrong(tiny, work, inside):
    folder = work.data("own")
    with (folder / "train.tsv").open("a") as train:
        train.write(PLANTED)
    (folder / "dev.tsv").write_text("no\tsun\nyes\tnothing of it is known\n")
    code, _, err = inside(
        work.flags(work.root / "new", "own", do_train=True, do_eval=True)
    )
    assert code == 0, err
    warnings = [line for line in err.splitlines() if "WARNING" in line]
    train, dev = folder / "train.tsv", folder / "dev.tsv"
    assert any(f"{train}:26: 1 row with the text of an" in line for line in warnings)
    assert any(f"WARNING  {dev}:1: 1 row (50.0%)" in line for line in warnings)
    assert any("of the tokens are [UNK]" in line for line in warnings)


def test_dev_that_is_the_training_file_is_said(tiny, work, inside):
    (work.data("own") / "task.json").write_text(
        json.dumps({**TASK_JSON, "dev": "train.tsv"})
    )
    flags = {"do_train": True, "do_eval": True}
    code, _, err = inside(work.flags(work.root / "new", "own", **flags))
    assert code == 0, err
    assert "24 rows (100.0%) with the text of a row of" in err


def test_a_model_of_another_type_is_not_used(tiny, own):
    """Its head would fit, and the probabilities would mean something else."""
    own.write(".tsv", lambda _, found: "".join(
        f"{a}\t{LABELS['multi'](y)}\n" for y, a, _ in found).encode())  # fmt: skip
    task = {"train": "train.tsv", "dev": "dev.tsv", "text_a": 0, "label": 1}
    task |= {"label_separator": "|", "type": "multi"}
    (own.data / "task.json").write_text(json.dumps(task))
    out, _ = own.run("out", num_train_epochs=1, export_hf=own.data / "hf")
    (own.data / "task.json").write_text(json.dumps({"test": "test.tsv", "text_a": 0}))
    flags = tiny.flags(out, "mine", data_dir=own.data, do_predict=True)
    assert_refused(own.inside(flags), "--task_type (was multi, is single)")
    flags = {"init_checkpoint": own.data / "hf", "vocab_file": None}
    flags |= {"bert_config_file": None, "data_dir": own.data, "do_predict": True}
    result = own.inside(tiny.flags(own.data / "new", "mine", **flags))
    assert_refused(result, "is of the type 'multi_label_classification'")


@pytest.mark.parametrize("split", ["dev", "train"])
def test_the_doctor_finds_what_a_training_would_refuse(work, capfd, split):
    from bert_mgpu.cli.doctor import environment

    path = work.data("own") / f"{split}.tsv"
    with path.open("a") as file:
        file.write("\tsun\n" if split == "train" else "maybe\tsun\n")
    flags = work.flags(work.root / "unused", "own", init_checkpoint=None)
    assert environment.main(["data", *flags]) == 2
    out, _ = capfd.readouterr()
    line = len(path.read_text().splitlines())
    what = {"train": "the label is empty", "dev": "label 'maybe' is not one of no, yes"}
    assert f"{path}:{line}: {what[split]}" in out


def test_the_doctor_shows_faults_where_no_row_can_be_read(work, capfd):
    from bert_mgpu.cli.doctor import environment as environment_lib

    task = {**TASK_JSON, "label": 3}
    (work.data("own") / "task.json").write_text(json.dumps(task))
    flags = work.flags(work.root / "unused", "own", init_checkpoint=None)
    assert environment_lib.main(["data", *flags]) == 2
    out, err = capfd.readouterr()
    assert "train.tsv:1: 2 columns, but column 3 (counted from 0) is needed" in out
    assert "faults in rows that cannot be read" in err


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_the_doctor_refuses_a_missing_file_that_a_flag_names(work, capfd, split):
    """One of the task itself is a problem, beside which the others are looked at."""
    from bert_mgpu.cli.doctor import environment

    folder = work.data("own")
    flags = work.flags(work.root / "unused", "own", init_checkpoint=None)
    named = f"--{split}_file=missing.tsv"
    assert environment.main(["data", *flags, named]) == 2
    _, err = capfd.readouterr()
    assert f"error: {folder / 'missing.tsv'}: no such file" in err
    own = folder / f"{split}.tsv"
    own.unlink()
    assert environment.main(["data", *flags]) == 0
    said = capfd.readouterr().out
    assert f"{own}: the task names this file as {split}, but it does not exist" in said
    assert said.count("first row of") == 2


def test_the_doctor_looks_through_all_files(work, capfd):
    """Rows that cannot be read do not hide the others."""
    from bert_mgpu.cli.doctor import environment as environment_lib

    folder = work.data("own")
    with (folder / "train.tsv").open("a") as train:
        train.write(f"{PLANTED}maybe\tsun\nalone\n\n")
    (folder / "task.json").write_text(
        json.dumps({**TASK_JSON, "labels": ["no", "yes"]})
    )
    before = tree(work.root)
    flags = work.flags(work.root / "unused", "own", init_checkpoint=None)
    assert environment_lib.main(["data", *flags]) == 2
    out, err = capfd.readouterr()
    assert "error: 3 faults in rows that cannot be read" in err
    for fault in (
        "train.tsv:28: label 'maybe' is not one of no, yes",
        "train.tsv:29: 1 column, but column 1 (counted from 0) is needed",
        "train.tsv:30: blank line: delete it",
        "train.tsv:26: 1 row with the text of an earlier row and another label",
    ):
        assert fault in out, out
    lines = [line.split() for line in reversed(out.splitlines()) if line]
    table = {first: rest for first, *rest in lines}  # the first line of each
    assert table["rows"] == ["27", "13", "11"]
    assert table["0"] == ["no", "13", "7"] and table["1"] == ["yes", "14", "6"]
    assert tree(work.root) == before
    assert max(map(len, out.split("looked for:")[0].splitlines())) <= 80
