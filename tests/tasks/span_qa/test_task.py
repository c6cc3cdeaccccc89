"""The losses of answers, and the parameters that they need."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.span_qa import dataset, metrics, predictions, scored
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB, small_config

LENGTH = 16
CHOICE = scored.Choice(20, 30, False, null_score_diff_threshold=0.0)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Questions of several windows and of one; one has no answer that is known."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    long = ("sun suns joy " * 5).strip()
    labels = [Answers(("joy",), (9, 12)), Answers(("x",), None), Answers((), None)]
    contexts = [long, "the sun", "rain joy"]
    return dataset.featurise(
        [
            Example(str(number), "the of", context, label=label)
            for number, (context, label) in enumerate(
                zip(contexts, labels, strict=True)
            )
        ],
        Tokenizer(path),
        max_seq_length=LENGTH,
        doc_stride=5,
        max_query_length=3,
    )


@pytest.fixture(scope="module")
def task():
    config = small_config(vocab_size=len(VOCAB))
    return SpanQa("own", config, max_seq_length=LENGTH, choice=CHOICE)


@pytest.fixture(scope="module")
def weights(task):
    specs = {name: (shape, "truncated_normal") for name, (shape, _) in
             task.param_specs().items()}  # fmt: skip
    return params_lib.initialize(specs, 0.3, seed=2)


def batch_of(rows, placement):
    collated = pipeline.collate(rows, placement)
    return {name: values[0] for name, values in collated.items()}


def loss_of(task, weights, batch):
    tensors = {name: tf.constant(values) for name, values in batch.items()}
    return float(task.loss_sums(weights, tensors, None)["loss"])


def test_packed_rows_have_the_losses_of_rows_alone(task, weights, rows):
    numbers = np.arange(len(rows))
    alone = packing.one_per_row(numbers, 1, LENGTH)
    shape = packing.Shape(rows=len(rows), length=32, examples_per_row=4)
    packed = packing.pack(numbers, rows.lengths, 1, shapes=[shape])
    assert (packed.numbers != packing.EMPTY).sum(-1).max() > 1
    one, other = (batch_of(rows, placement) for placement in (alone, packed))
    found = [loss_of(task, weights, batch) for batch in (one, other)]
    assert found[0] == pytest.approx(found[1], rel=1e-5) and found[0] > 1
    counts = [task.loss_weights(batch)["loss"] for batch in (one, other)]
    known = (rows.dense[dataset.STARTS] >= 0).sum()
    assert counts == [known, known] and known == len(rows) - 1


def test_the_loss_is_that_of_the_tokens_of_a_row(task, weights, rows):
    """Not of its padding, whose logits are no part of the softmax."""
    placement = packing.one_per_row(np.arange(len(rows)), 1, LENGTH)
    batch = batch_of(rows, placement)
    tensors = {name: tf.constant(values) for name, values in batch.items()}
    logits = task.outputs(weights, tensors)["logits"].numpy()
    wanted = 0.0
    for row, length in enumerate(rows.lengths):
        logs = tf.nn.log_softmax(logits[row, :length], axis=0).numpy()
        start, end = (rows.dense[key][row] for key in (dataset.STARTS, dataset.ENDS))
        if start >= 0:
            wanted -= (logs[start, 0] + logs[end, 1]) / 2
    assert loss_of(task, weights, batch) == pytest.approx(wanted, rel=1e-5)
    assert rows.lengths.min() < LENGTH


def test_rows_that_fill_the_batch_have_no_loss(task, weights, rows):
    numbers = np.array([0, 1, packing.EMPTY, packing.EMPTY])
    padded = packing.one_per_row(numbers, 1, LENGTH)
    plain = packing.one_per_row(numbers[:2], 1, LENGTH)
    both = [batch_of(rows, placement) for placement in (padded, plain)]
    assert task.loss_weights(both[0]) == task.loss_weights(both[1])
    losses = [loss_of(task, weights, batch) for batch in both]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_parameters_are_googles_without_a_pooler(task):
    specs = task.param_specs()
    assert specs["cls/squad/output_weights"] == ((2, 32), "truncated_normal")
    assert specs["cls/squad/output_bias"] == ((2,), "zeros")
    assert not [name for name in specs if "pooler" in name]


def test_the_scores_of_a_task(task):
    """By its contexts and questions; each is in the log, and one chooses."""
    config = small_config()
    for negative, chinese, wanted in (
        (False, False, ("exact_match", "f1")),
        (False, True, ("cmrc_em", "cmrc_f1")),
        (True, False, ("exact", "f1")),
    ):
        choice = CHOICE._replace(version_2_with_negative=negative)
        own = SpanQa("x", config, max_seq_length=9, choice=choice, chinese=chinese)
        assert own.shown == ("eval_loss", *wanted) and own.metric == wanted[-1]
    scores = metrics.scores([["joy"]], ["joy"], chinese=True)
    assert scores == dict.fromkeys(("exact_match", "f1", "cmrc_em", "cmrc_f1"), 100)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("chinese", [False, True])
def test_the_best_weights_may_be_those_of_any_score(rows, negative, chinese):
    """Of a question without an answer there are more: two of the three have one."""
    choice = CHOICE._replace(version_2_with_negative=negative)
    own = SpanQa("x", small_config(), max_seq_length=9, choice=choice, chinese=chinese)
    names = ["exact", "f1"] if negative else ["exact_match", "f1"]
    names += ["cmrc_em", "cmrc_f1"] * chinese
    if negative:
        parts = [f"{part}_{name}" for part in ("HasAns", "NoAns") for name in names]
        names += [*parts, "best_exact", "best_f1"]
    found = own.metrics(rows)
    assert sorted(found) == sorted(["eval_loss", *names])
    assert {*own.shown, own.metric} <= {*found}


@pytest.mark.parametrize("task", ["squad", "squad2"])
@pytest.mark.parametrize("given", [False, True])
def test_a_threshold_that_does_nothing_is_named(capsys, task, given):
    """Not refused: google-research/bert takes it."""
    flags = {"null_score_diff_threshold": -1.5} if given else {}
    config = FinetuneConfig(task_name=task, given=frozenset(flags), **flags)
    family = registry.family_of(files := registry.find_task_files(config), config)
    model = types.SimpleNamespace(bert_config=small_config())
    family.task(config, model, files, data=None)
    line = (
        "--null_score_diff_threshold=-1.5 does nothing without"
        " --version_2_with_negative=true"
    )
    said = " ".join(capsys.readouterr().err.split())
    assert (line in said) == (given and task == "squad")


def test_a_prediction_for_people():
    record = {"answer": "sun", "start": 4, "end": 7, "probability": 0.5}
    display = predictions.display(record)
    assert (display.text, display.bars) == ("sun", [("sun", 0.5)])
    assert display.spans == [(4, 7, "")]
    none = {"answer": "", "start": None, "end": None, "probability": 0.5}
    assert predictions.display(none).text == "no answer"
