"""Export of a model as a SavedModel, for TensorFlow Serving or `tf.saved_model.load`.

Signatures: `serving_default` takes raw texts, `ids` takes token ids. Both take any
number of rows, and need no operations but TensorFlow's own, unless the tokenizer does.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example, Features, Outputs, Ragged
from bert_mgpu.core.task import Task
from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.text import truncation as truncation_lib
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer

TEXTS, IDS = "serving_default", "ids"
BATCH = 8  # rows to compare at once
IDS_INPUTS = ("input_ids", "input_mask", "segment_ids")
FACTS = "bert_mgpu.json"  # the file with `Served.facts`
_OURS = {FACTS, "saved_model.pb", "fingerprint.pb", "variables", "assets"}


class Exportable(Task, Protocol):
    """A task that can be exported."""

    @property
    def segments(self) -> Segments:
        """How a long text is cut into the segments of a row."""
        ...

    def answers(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of an exported model, including some of `outputs`."""
        ...


class Served(tf.Module):  # type: ignore[misc]
    """A task with its weights and tokenizer. Letters: B rows, T tokens."""

    def __init__(
        self,
        task: Exportable,
        params: Mapping[str, np.ndarray],
        tokenizer: Tokenizer,
        *,
        truncation: str,
        head_tokens: int,
        in_graph: type[GraphTokenizer] = GraphTokenizer,
    ):
        super().__init__()
        self._task, self._max_length = task, task.max_seq_length
        self._params = {name: tf.Variable(value) for name, value in params.items()}
        self._tokenize = in_graph(tokenizer)
        self._lower = tokenizer.do_lower_case
        self._cls, self._sep = tokenizer.cls_id, tokenizer.sep_id
        self._head = truncation_lib.HEADS[truncation], head_tokens
        head = truncation_lib.HEADS[truncation](task.segments.budget, head_tokens)
        kept = head if truncation == "head_tail" else head_tokens
        self._truncation = {"truncation": truncation, "head_tokens": kept}

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for clients: the labels, what fits in a row, the casing."""
        segments = self._task.segments
        segment_settings = {
            "max_segments": segments.most,
            "doc_stride": segments.stride,
        }
        return {
            "task_name": self._task.name,
            "type": self._task.facts.get("task_type"),
            "labels": list(self._task.labels),
            "max_seq_length": self._max_length,
            "do_lower_case": self._lower,
            **self._truncation,
            **(segment_settings if segments.most > 1 else {}),
        }

    @property
    def bytes(self) -> int:
        """The bytes of the weights."""
        sizes = (value.shape.num_elements() for value in self._params.values())
        return sum(sizes) * np.dtype(np.float32).itemsize

    def answers_for_ids(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """int32 [B, T], padded with zeros -> the task's answers for each row."""
        batch = {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
        }
        params = {name: tf.convert_to_tensor(v) for name, v in self._params.items()}
        outputs = self._task.outputs(params, batch)
        answers = self._task.answers(outputs)
        if not outputs.keys() & answers.keys():  # nothing could be compared
            raise ValueError(f"answers() of {self._task.name} has none of {[*outputs]}")
        return answers

    def outputs_for_ids(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The outputs of an ONNX export: by default, all of `answers_for_ids`."""
        return self.answers_for_ids(input_ids, input_mask, segment_ids)

    def answers_for_texts(self, text_a: tf.Tensor) -> dict[str, tf.Tensor]:
        """string [B], UTF-8 -> the task's answers for each text."""
        if self._task.segments.most == 1:
            return self.answers_for_pairs(text_a, tf.zeros_like(text_a))
        ids = self._tokenize(text_a)
        ids, _ = self._truncate(ids, ids[:, :0], self._task.segments.budget)
        tokens, mask = self._segmented(ids)
        return self.answers_for_ids(tokens, mask, tf.zeros_like(mask))

    def _segmented(self, ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Rows as `Segments.row` makes them: input_ids, input_mask int32 [B, T]."""
        segments, counts = self._task.segments, tf.cast(ids.row_lengths(), tf.int32)
        beyond = tf.maximum(0, counts - segments.room)  # tokens after the first segment
        more = -(-beyond // segments.stride)  # segments, each as full as the first
        lengths = more * segments.length + counts - more * segments.stride + 2  # [B]
        longest = tf.maximum(tf.reduce_max(lengths), 2)  # even without any rows
        places = tf.range(longest)[None]  # [1, T]
        number, place = places // segments.length, places % segments.length
        mask = tf.cast(places < lengths[:, None], tf.int32)
        source = number * segments.stride + place - 1  # of each token in its text
        text = tf.pad(ids.to_tensor(), [[0, 0], [0, 1]])  # where no text has a token
        shape = tf.shape(mask)
        source = tf.clip_by_value(source, 0, tf.shape(text)[1] - 1)
        tokens = tf.gather(text, tf.broadcast_to(source, shape), batch_dims=1)
        ends = (place == segments.length - 1) | (places == lengths[:, None] - 1)
        tokens = tf.where(ends, self._sep, tokens)
        return tf.where(place == 0, self._cls, tokens) * mask, mask

    def answers_for_pairs(
        self, text_a: tf.Tensor, text_b: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """string [B] each -> answers; a row without tokens in text_b is no pair."""
        a, b = self._tokenize(text_a), self._tokenize(text_b)
        pair = b.row_lengths() > 0
        a, b = self._truncate(a, b, self._max_length - tf.where(pair, 3, 2))
        cls = tf.fill([a.nrows(), 1], self._cls)
        sep = tf.fill([a.nrows(), 1], self._sep)
        last = tf.ragged.boolean_mask(sep, pair[:, None])
        ids = tf.concat([cls, a, sep, b, last], 1)
        lengths = ids.row_lengths()[:, None]
        first = a.row_lengths()[:, None] + 2  # tokens of segment 0
        dense = ids.to_tensor()
        positions = tf.range(tf.shape(dense, tf.int64)[1])[None]
        mask = tf.cast(positions < lengths, tf.int32)
        return self.answers_for_ids(
            dense, mask, mask * tf.cast(positions >= first, tf.int32)
        )

    def _truncate(
        self, a: tf.RaggedTensor, b: tf.RaggedTensor, budget: tf.Tensor | int
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The texts as text/truncation.py truncates them, all rows at once.

        budget: the tokens that fit in a row, int32 [B], or one number for all rows.
        """
        budget = tf.cast(budget, tf.int64)
        size_a, size_b = a.row_lengths(), b.row_lengths()
        single, fits = size_b == 0, size_a + size_b <= budget
        half = tf.maximum((budget + 1) // 2, budget - size_b)
        kept = tf.where(fits, size_a, tf.minimum(size_a, half))
        head_of, tokens = self._head
        head = tf.cast(head_of(self._task.segments.budget, tokens), tf.int64)
        head = tf.where(single & ~fits, head, kept)
        tail = tf.where(single & ~fits, budget - head, 0)
        positions = tf.ragged.range(size_a)
        keep_a = (positions < head[:, None]) | (positions >= (size_a - tail)[:, None])
        positions = tf.ragged.range(size_b)
        keep_b = positions < tf.where(fits, size_b, budget - kept)[:, None]
        return tf.ragged.boolean_mask(a, keep_a), tf.ragged.boolean_mask(b, keep_b)


def write(target: str, served: Served, with_pairs: bool) -> None:
    """Writes the folder completely or not at all, replacing only an earlier export.

    with_pairs: whether rows have two texts. Raises UserError if it cannot be written.
    """
    folder = pathlib.Path(target).absolute()
    files.check_replaceable(folder, is_export)
    texts, ids = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
    call = served.answers_for_pairs if with_pairs else served.answers_for_texts
    signatures = {
        TEXTS: _signature(call, ("text_a", "text_b")[: 1 + with_pairs], texts),
        IDS: _signature(served.answers_for_ids, IDS_INPUTS, ids),
    }
    try:
        with files.replacing_folder(folder) as new:
            tf.saved_model.save(served, str(new), signatures)
            facts = json.dumps(served.facts, indent=2, ensure_ascii=False)
            (new / FACTS).write_text(facts + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder}: cannot export: {error.strerror}") from None


def _signature(call: Any, names: Sequence[str], spec: tf.TensorSpec) -> Any:
    named = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name in names}
    return tf.function(call, autograph=False).get_concrete_function(**named)


def is_export(folder: pathlib.Path, names: set[str]) -> bool:
    """Whether `folder`, whose files are `names`, was written by `write`."""
    return FACTS in names and names <= _OURS


def difference(
    folder: str,
    examples: Sequence[Example],
    with_pairs: bool,
    *,
    outputs: Outputs,
) -> float:
    """The largest difference between the folder's outputs for texts and `outputs`."""
    loaded = tf.saved_model.load(folder)
    largest = 0.0
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        texts = {"text_a": tf.constant([example.text_a for example in batch])}
        if with_pairs:
            texts["text_b"] = tf.constant([example.text_b or "" for example in batch])
        answers = loaded.signatures[TEXTS](**texts)
        rows = np.arange(start, start + len(batch))
        for name in outputs.keys() & answers.keys():
            gap = largest_gap(outputs[name], rows, answers[name].numpy())
            largest = max(largest, gap)
    return largest


def ids_difference(folder: str, rows: Features, outputs: Outputs) -> float:
    """The largest difference between the folder's outputs for ids and `outputs`."""
    call = tf.saved_model.load(folder).signatures[IDS]

    def answer(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs = {name: tf.constant(value) for name, value in batch.items()}
        return {name: value.numpy() for name, value in call(**inputs).items()}

    return difference_of_ids(answer, rows, outputs)


def difference_of_ids(
    answer: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]],
    rows: Features,
    outputs: Outputs,
) -> float:
    """The largest difference between a model's answers to padded ids and `outputs`."""
    largest = 0.0
    for start in range(0, len(rows), BATCH):
        numbers = np.arange(start, min(start + BATCH, len(rows)))
        answers = answer(_padded(rows.take(numbers)))
        for name in outputs.keys() & answers.keys():
            gap = largest_gap(outputs[name], numbers, answers[name])
            largest = max(largest, gap)
    return largest


def _padded(rows: Features) -> dict[str, np.ndarray]:
    lengths = rows.lengths[:, None]
    mask = (np.arange(lengths.max())[None] < lengths).astype(np.int32)
    batch = {"input_mask": mask}
    for name in ("input_ids", "segment_ids"):
        batch[name] = np.zeros_like(mask)
        batch[name][mask > 0] = rows.ragged[name].values
    return batch


def largest_gap(wanted: np.ndarray | Ragged, rows: np.ndarray, values: Any) -> float:
    """The largest difference between the `rows` of `wanted` and `values` [rows, ...].

    Where an output has a value for each token, `values` is padded: [rows, T, ...].
    """
    if isinstance(wanted, Ragged):
        pairs = ((wanted.row(row), values[i]) for i, row in enumerate(rows))
        return max(float(np.abs(own - row[: len(own)]).max()) for own, row in pairs)
    return float(np.abs(values - wanted[rows]).max())
