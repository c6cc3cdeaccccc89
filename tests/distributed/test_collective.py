"""What processes compare; the sums themselves are tested by real processes."""

import json
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.core.rows import Ragged
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import collective, topology
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import identity, score_sentences, train
from bert_mgpu.runs.run import Run
from bert_mgpu.text.tokenization import Tokenizer


class Two:
    """A group whose other process says something of its own."""

    rank, size = 0, 2

    def __init__(self, other=None):
        self._other = other

    def all_gather(self, value):
        other = value if self._other is None else json.dumps(self._other).encode()
        return [value, other]


def state(value):
    return TrainState({"a/kernel": np.full(3, value, np.float32)}, {}, 7)


def test_other_weights_in_a_process_are_an_error():
    seen = []

    class Listening(Two):
        def all_gather(self, value):
            seen.append(json.loads(value))
            return super().all_gather(value)

    collective.check_same_state(state(1.0), Listening())
    collective.check_same_state(
        state(np.nextafter(np.float32(1), np.float32(2))), Listening()
    )
    assert seen[0] != seen[1]  # one bit of one value
    with pytest.raises(RunError, match="step 7: weights of process 1 differ"):
        collective.check_same_state(state(1.0), Two(seen[1]))


def test_other_moments_in_a_process_are_an_error():
    seen = []

    class Listening(Two):
        def all_gather(self, value):
            seen.append(json.loads(value))
            return super().all_gather(value)

    for value in (1.0, 2.0):
        slots = {"a/kernel/adam_m": np.full(3, value, np.float32)}
        collective.check_same_state(TrainState({}, slots, 7), Listening())
    assert seen[0] != seen[1]


class Shares:
    """A group of two processes, each with its share of some rows."""

    rank, size = 0, 2

    def __init__(self, others):
        self._others = iter(others)

    def all_gather(self, value):
        return [value, np.ascontiguousarray(next(self._others)).tobytes()]


def test_rows_of_all_processes_in_order():
    first = {
        "logits": np.array([[1, 2], [3, 4]], np.float32),
        "tags": Ragged(np.array([5, 6, 7], np.int64), np.array([0, 1, 3])),
    }
    others = [  # in the order of the names
        np.array([[9, 8]], np.float32),
        np.array([2], np.int64),  # lengths
        np.array([1, 0], np.int64),
    ]
    rows = collective.all_gather_rows(Shares(others), first)
    assert rows["logits"].tolist() == [[1, 2], [3, 4], [9, 8]]
    assert rows["tags"].values.tolist() == [5, 6, 7, 1, 0]
    assert rows["tags"].offsets.tolist() == [0, 1, 3, 5]


def test_what_a_process_has_otherwise_is_named():
    collective.check_equal(Two(), {"--seed": 3})
    with pytest.raises(UserError, match=r"--seed: process 1 .* \(4 instead of 3\)"):
        collective.check_equal(Two({"--seed": 4}), {"--seed": 3})


def test_another_version_is_named_though_it_lacks_a_flag():
    facts = {"bert_mgpu": "2", "--new_flag": 3}
    with pytest.raises(UserError, match=r"bert_mgpu: process 1 .* \(1 instead of 2\)"):
        collective.check_equal(Two({"bert_mgpu": "1"}), facts)
    with pytest.raises(UserError, match=r"--new_flag: .* \(None instead of 3\)"):
        collective.check_equal(Two({"bert_mgpu": "2"}), facts)


@pytest.mark.parametrize("count", [3, 4, 8, 11])
def test_a_sum_of_more_values_than_horovod_can_count_goes_in_pieces(monkeypatch, count):
    group = object.__new__(collective.Horovod)
    group.uses_nccl, group.sends_float16, group.size = False, False, 2
    names, lengths = [], []

    def twice(flat, name, dtype):
        names.append(name)
        lengths.append(flat.shape[0])
        return 2 * flat

    monkeypatch.setattr(collective, "_MAX_VALUES", 4)
    monkeypatch.setattr(group, "_pairwise_sum", twice)
    values = [tf.range(count - 2, dtype=tf.float32), tf.constant([7.0, 8.0])]
    sums = group.all_reduce(*values)
    for one, value in zip(sums, values, strict=True):
        np.testing.assert_array_equal(one, 2 * value)
    assert len({*names}) == len(names)  # Horovod tells its work by name
    assert sum(lengths) == count
    assert max(lengths) <= 4 and min(lengths) > 0


@pytest.fixture
def job_of(tmp_path):
    """A run of two processes, of which the other one says what it is given."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sun"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    tokenizer = Tokenizer(tmp_path / "vocab.txt")
    config = BertConfig(vocab_size=len(words))
    model = Pretrained(
        config,
        "x.json",
        tokenizer,
        vocab_file="vocab.txt",
        do_lower_case=True,
        labels=None,
    )
    task = types.SimpleNamespace(param_specs=dict, labels=["good", "bad"], facts={})

    def made(other, **run):
        run = types.SimpleNamespace(max_seq_length=8, do_train=False, **run)
        two = topology.Topology(Two(other), ["CPU:0"], 2)
        return Run(run, model, task, data=None, topology=two, output_dir=tmp_path)

    return made


def test_runs_that_do_not_train_compare_the_model_too(job_of):
    facts = identity.model_identity(job_of(None).model, job_of(None).task)
    for name, value in (("vocab_file", "0"), ("labels", ["bad", "good"])):
        with pytest.raises(
            UserError, match=f"{name}: process 1 differs from process 0"
        ):
            train.train_or_load(job_of(facts | {name: value}))


def test_the_lines_to_score_are_compared(job_of, tmp_path):
    (tmp_path / "lines.txt").write_text("sun\nsun sun\n")
    job = job_of({"--predict_file": "0"}, predict_file=tmp_path / "lines.txt")
    with pytest.raises(
        UserError, match="--predict_file: process 1 differs from process 0"
    ):
        score_sentences.score(job, {})


NO_SYMBOL = "mpi_lib.so: undefined symbol: _ZNK10tensorflow8OpKernel"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "import of horovod.* halted"),
        (ImportError("Extension horovod has not been built"), "Extension"),
        (tf.errors.NotFoundError(None, None, NO_SYMBOL), NO_SYMBOL),
        (AttributeError("no attribute"), "cannot import name 'tensorflow'"),
    ],
)
def test_a_horovod_that_cannot_be_loaded(monkeypatch, error, reason):
    """It is absent, or was built for another TensorFlow."""

    class Broken:
        __path__ = ()

        def __getattr__(self, name):
            raise error

    for name in ("horovod", "horovod.tensorflow"):
        monkeypatch.setitem(sys.modules, name, Broken() if error else None)
    with pytest.raises(UserError) as caught:
        collective.Horovod(False, "float32", print, pausing=print)
    advice = "run bert_mgpu install_horovod --force"
    expected = rf"horovod cannot be loaded: {reason}.*: {advice}"
    assert re.fullmatch(expected, str(caught.value))
