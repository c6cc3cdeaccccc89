"""What a whole run leaves: every file, read back by what its users read it with."""

import json
import shutil

import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import run_files
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.processes import SCRIPT
from tests.support.runs import tree
from tests.support.tiny import CONFIG, VOCAB

DEV, TEST = 13, 11  # rows of the files
PREDICTIONS = ("predict.txt", "test_results.tsv", "predictions.jsonl")


# Two towers on two logical devices: train, evaluate and predict.
WHOLE = {"do_eval": True, "do_predict": True, "n_gpus": 2, "cpu_devices": 2}
WHOLE |= {"num_train_epochs": 4, "log_steps": 3}


def flags(tiny, output_dir, **changed):
    return tiny.flags(output_dir, **{"do_train": True, **WHOLE, **changed})


def only(tiny, output_dir, *more):
    """What a later run needs to say."""
    where = [f"--data_dir={tiny.data()}", f"--output_dir={output_dir}"]
    return ["--task_name=mrpc", *where, *more]


@pytest.fixture(scope="module")
def whole(trained):
    return trained(**WHOLE)


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out")


def classes(output_dir):
    return [
        int(line) for line in (output_dir / "predict.txt").read_text().split("\n")[:-1]
    ]


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def evaluation(output_dir):
    lines = (output_dir / "eval_results.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def test_every_name_that_a_run_leaves_is_described(whole):
    names = [name for described, _ in run_files.CONTENTS for name in described]
    for path in whole.iterdir():
        fits = [n for n in names if run_files.pattern(n).fullmatch(path.name)]
        assert len(fits) == 1, path.name
        assert path.is_dir() == fits[0].endswith("/"), path.name


def test_predictions_agree_with_each_other(whole):
    actual = classes(whole)
    assert len(actual) == TEST and set(actual) == {0, 1}
    shares = np.loadtxt(whole / "test_results.tsv", delimiter="\t")
    assert shares.shape == (TEST, 2)
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert shares.argmax(1).tolist() == actual
    rows = records(whole / "predictions.jsonl")
    assert [row["id"] for row in rows] == [f"test-{i}" for i in range(1, TEST + 1)]
    assert [row["line"] for row in rows] == list(range(2, TEST + 2))  # a header
    assert [row["label"] for row in rows] == [str(label) for label in actual]
    for row, wanted in zip(rows, shares, strict=True):
        assert list(row["probabilities"]) == ["0", "1"]
        np.testing.assert_allclose([*row["probabilities"].values()], wanted, atol=1e-6)


def test_evaluation_is_sklearns(tiny, whole, copy, inside):
    """The dev file once more, as a file to predict: scored by scikit-learn."""
    dev = tiny.data() / "dev.tsv"
    assert inside(only(tiny, copy, "--do_predict", f"--predict_file={dev}"))[0] == 0
    labels = [int(line[0]) for line in dev.read_text().splitlines()[1:]]
    shares = np.loadtxt(copy / "test_results.tsv", delimiter="\t")
    actual = evaluation(whole)
    assert list(actual)[:4] == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    accuracy = sklearn.metrics.accuracy_score(labels, classes(copy))
    assert 0.5 < accuracy == float(actual["eval_accuracy"])
    loss = sklearn.metrics.log_loss(labels, shares)
    assert float(actual["eval_loss"]) == pytest.approx(loss, rel=1e-5)
    assert actual["loss"] == actual["eval_loss"] and actual["global_step"] == "12"
    macro = sklearn.metrics.f1_score(labels, classes(copy), average="macro")
    assert float(actual["macro_f1"]) == pytest.approx(macro, rel=1e-6)


def test_what_describes_the_model(tiny, whole):
    assert (whole / "label_list.txt").read_text() == "0\n1\n"
    config = json.loads((whole / "bert_config.json").read_text())
    assert {name: config[name] for name in CONFIG} == CONFIG
    assert BertConfig.from_json_file(whole / "bert_config.json").hidden_size == 32
    assert Tokenizer(whole / "vocab.txt").tokens == VOCAB
    facts = json.loads((whole / "run.json").read_text())
    assert facts["flags"]["n_gpus"] == 2 and facts["flags"]["seed"] == 42
    assert {"bert_mgpu", "tensorflow", "numpy", "python"} <= facts["versions"].keys()
    training = facts["training"]
    assert training["began"] < training["ended"] and training["seconds"] > 0
    assert training["devices"] == ["CPU:0", "CPU:1"]
    tensors = google_read.read(whole)
    assert tensors["global_step"] == 12
    assert tensors["output_weights"].shape == (2, 32)
    assert "bert/pooler/dense/kernel/adam_m" in tensors


def test_curves_hold_every_logged_step(whole):
    rows = records(whole / "metrics.jsonl")
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
    assert all(np.isfinite([*row.values()]).all() for row in rows)
    assert all(row["input_wait_seconds"] >= 0 for row in rows)
    assert rows[-1]["loss"] < rows[0]["loss"]
    times = [row["time"] for row in rows]
    assert times == sorted(times) and times[-1] - times[0] < 600
    assert [row["epoch"] for row in rows] == pytest.approx([1, 2, 3, 4], abs=0.3)
    events = event_accumulator.EventAccumulator(str(whole)).Reload()
    assert "train/loss" in events.Tags()["tensors"]
    points = events.Tensors("train/loss")
    assert [point.step for point in points] == [3, 6, 9, 12]
    losses = [tf.make_ndarray(point.tensor_proto) for point in points]
    np.testing.assert_allclose(losses, [row["loss"] for row in rows], rtol=1e-6)
    # The scores of the end, without --eval_steps.
    final = {name: float(value) for name, value in evaluation(whole).items()}
    for name in ("eval_accuracy", "eval_loss", "macro_f1"):
        (point,) = events.Tensors(f"dev/{name}")
        assert point.step == final["global_step"] == 12
        assert float(tf.make_ndarray(point.tensor_proto)) == pytest.approx(final[name])


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--predict_batch_size=1",),
        ("--predict_batch_size=4", "--n_gpus=3"),
        ("--n_gpus=2", "--cpu_devices=2", "--predict_batch_size=64"),
    ],
    ids=str,
)
def test_a_later_prediction_needs_few_flags(tiny, whole, copy, inside, more):
    """Sizes, vocabulary and lengths are as trained; how rows are batched is free."""
    for name in PREDICTIONS:
        (copy / name).unlink()
    code, _, err = inside(only(tiny, copy, "--do_predict", *more))
    assert code == 0, err
    assert "--max_seq_length=16, as the model was trained" in err
    assert (copy / "predict.txt").read_bytes() == (whole / "predict.txt").read_bytes()
    np.testing.assert_allclose(
        np.loadtxt(copy / "test_results.tsv"),
        np.loadtxt(whole / "test_results.tsv"),
        atol=1e-5,
    )


def test_a_setting_of_the_trained_model_can_be_overridden(tiny, copy, inside):
    args = only(tiny, copy, "--do_predict", "--max_seq_length=64")
    code, _, err = inside(args)
    assert code == 0 and "as the model was trained" not in err
    assert "0.0% truncated at 64" in err


def test_the_same_command_again_changes_nothing(tiny, whole, copy, script):
    """In another Python: nothing that names a run or a cache may differ there."""
    before, cache = tree(copy), sorted((copy / "cache").iterdir())
    command = ["tests.support.warm", "here", SCRIPT, *flags(tiny, copy)]
    code, _, err = script(command, program="-m", anew=True)
    assert code == 0, err
    assert "nothing left to train: step 12 of 12 is done" in err
    assert tree(copy) == before
    assert sorted((copy / "cache").iterdir()) == cache


def test_paste_aligns_with_blank_and_ragged_lines(tiny, copy, inside, tmp_path):
    lines = [
        "Quality\t#1\t#2\t#1 String\t#2 String",
        "x\t1\t2\tsun\tjoy",
        "",
        "\t\t\t\t",
        "y\t1\t2\train\tloss\tmore\tcolumns",
        "  ",
        "z\t1\t2\t\train",
    ]
    path = tmp_path / "ragged.tsv"
    for end in ("\n", ""):  # with and without a last line end
        path.write_text("\n".join(lines) + end)
        args = only(tiny, copy, "--do_predict", f"--predict_file={path}")
        code, _, err = inside(args)
        assert code == 0, err
        assert len(classes(copy)) == len(lines) - 1
        numbers = [row["line"] for row in records(copy / "predictions.jsonl")]
        assert numbers == [2, 3, 4, 5, 6, 7]
    # The same texts, each in a file of its own, get the same shares.
    shares = np.loadtxt(copy / "test_results.tsv")
    for index, row in ((0, lines[1]), (3, lines[4])):
        path.write_text(f"{lines[0]}\n{row}\n")
        assert (
            inside(only(tiny, copy, "--do_predict", f"--predict_file={path}"))[0] == 0
        )
        np.testing.assert_allclose(
            np.loadtxt(copy / "test_results.tsv"), shares[index], atol=1e-5
        )


@pytest.mark.parametrize("task", ["cola", "high_level", "own"])
def test_other_tasks_predict_and_evaluate(tiny, tmp_path, inside, task):
    code, _, err = inside(flags(tiny, tmp_path, task=task, num_train_epochs=8))
    assert code == 0, err
    dev_is_test = task != "own"
    assert len(classes(tmp_path)) == (DEV if dev_is_test else TEST)
    labels = (tmp_path / "label_list.txt").read_text()
    assert labels == ("no\nyes\n" if task == "own" else "0\n1\n")
    if dev_is_test:  # then predict.txt repeats what was evaluated
        wanted = [index % 2 for index in range(DEV)]
        accuracy = sklearn.metrics.accuracy_score(wanted, classes(tmp_path))
        assert float(evaluation(tmp_path)["eval_accuracy"]) == accuracy
