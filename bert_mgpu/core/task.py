"""The protocol of a task: its parameters, losses and outputs, and their scores."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_mgpu.core import tensor_names
from bert_mgpu.core.intervals import Interval
from bert_mgpu.core.rows import Example, Outputs, Rows

# A batch is a dict of tensors under google-research/bert's names. Shapes, with
# B rows and T tokens: input_ids, input_mask, segment_ids int32 [B, T];
# label_ids [B, ...], as its task says; is_real_example float32 [B], 0 for rows that
# only fill the batch; masked_lm_positions, masked_lm_ids int32 [B, P],
# masked_lm_weights float32 [B, P]; masked_lm_real int32 [M], where among the B * P the
# real ones are, -1 behind the last one (absent: all may be real).
Batch = Mapping[str, Any]
Params = Mapping[str, Any]  # name as in a Google TF1 checkpoint -> tensor
# Runs the model over rows, in all processes together. Returns {} if there are none.
Forward = Callable[[Rows], Outputs]
ReadExamples = Callable[[], Sequence[Example]]  # reads the examples of a set


class DropoutKey(NamedTuple):
    """The key of a forward pass's dropout masks.

    The masks are a function of (seed, step, a row's index in the global batch, site),
    so they depend neither on the towers nor on the devices.
    """

    seed: Any  # uint64 scalar
    step: Any  # int64 scalar, the optimizer step
    first_row: Any  # int64 scalar, index of the batch's row 0 in the global batch


class Task(Protocol):
    """A task, as the training loop, evaluation and prediction know it."""

    name: str
    lower_is_better: frozenset[str]  # scores that are better when they are lower
    max_seq_length: int
    labels: tuple[str, ...]  # of the classes; empty if there are none
    unused_params: frozenset[str]  # parameters that no loss depends on
    token_outputs: frozenset[str]  # names of outputs with a value for each token
    shared_outputs: frozenset[str]  # names of outputs that are the same for every row
    # Parameter -> a line to log where it is new but the rest of the model is not.
    new_head_warnings: Mapping[str, str]
    facts: dict[str, Any]  # flag -> value that every use of a trained model must share

    def param_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Every parameter: name -> (shape, initializer), see model/params.py."""
        ...

    def first_values(
        self, params: Mapping[str, np.ndarray], new: Collection[str]
    ) -> dict[str, np.ndarray]:
        """What some new parameters begin with, instead of their specs' initializer.

        params: all weights of a new run; new: the names of those without a checkpoint.
        """
        ...

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        """The denominator of each loss, from the labels of a batch of numpy arrays."""
        ...

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, Any]:
        """The numerator of each loss, a float32 scalar; no dropout key: inference."""
        ...

    def outputs(self, params: Params, batch: Batch) -> dict[str, Any]:
        """The output tensors of a batch, [B, ...].

        Those named in `token_outputs` are [B, T, ...]. Where rows are packed, so that B
        examples share R rows of tokens, they are [R, T, ...]. Those named in
        `shared_outputs` are [1, ...] and the same for every batch of a set.
        """
        ...

    def infer(self, rows: Any, forward: Forward) -> Outputs:
        """The outputs of a set of `Rows`; forward may be called several times.

        Every process calls it with the same rows and gets the outputs of all of them.
        """
        ...

    def scored_rows(self, outputs: Outputs, rows: Any, examples: ReadExamples) -> Any:
        """The outputs of a set of `Rows` with their labels, as `scores` takes them."""
        ...

    def scores(self, scored: Any) -> dict[str, Any]:
        """Metrics of a whole set, Google's names first."""
        ...

    def results(self, scores: Mapping[str, Any], step: int) -> dict[str, Any]:
        """The lines of eval_results.txt, in their order."""
        ...

    def summary(self, scored: Any, scores: Mapping[str, Any]) -> list[str]:
        """What to log of an evaluation: texts of one or several lines each."""
        ...


@dataclasses.dataclass
class TrainState:
    """Everything that a resume needs."""

    params: dict[str, np.ndarray]
    slots: dict[str, np.ndarray]  # "NAME/adam_m", "NAME/adam_v", ...
    step: int = 0  # optimizer steps done; with the seed, also the data position
    identity: dict[str, Any] | None = None  # of the run; None: written by TF1 code

    @property
    def averaged(self) -> dict[str, np.ndarray]:
        """The weights to use: their moving averages where these are kept."""
        averages = {
            name.removesuffix(f"/{tensor_names.AVERAGE}"): value
            for name, value in self.slots.items()
            if name.endswith(f"/{tensor_names.AVERAGE}")
        }
        return self.params | averages


class Predictions(NamedTuple):
    """The predictions of a set for each result file, one entry per example."""

    texts: list[str]  # predict.txt
    values: Sequence[np.ndarray] | np.ndarray  # [examples, W], test_results.tsv
    records: Sequence[dict[str, Any]]  # of predictions.jsonl, without id and line
    files: Mapping[str, Sequence[str]] = types.MappingProxyType({})  # further files
    remarks: Sequence[str] = ()  # lines for the log


class Trust(NamedTuple):
    """How far the scores of a set can be trusted."""

    intervals: Mapping[str, Interval] = types.MappingProxyType({})  # of scores, 95 %
    # Score -> what answers that need no model reach, by the answer in words.
    floors: Mapping[str, Mapping[str, float]] = types.MappingProxyType({})
    one_answer: str = ""  # a warning, if nearly all rows wrongly get the same one
    # Scores by which to tell whether a model has learnt anything, the main one first:
    # it has if any of them shows it. Empty: the task's `metric`.
    judged: Sequence[str] = ()

    def without_points(self) -> Trust:
        """Drops intervals of width 0: resampling rows that are all right, or all
        wrong, says nothing about other rows.
        """
        kept = {name: (a, b) for name, (a, b) in self.intervals.items() if a < b}
        return self._replace(intervals=kept)


class Display(NamedTuple):
    """A prediction as it is shown to people."""

    text: str
    bars: Sequence[tuple[str, float]] = ()  # a name and its share, 0 to 1
    # Parts of the example's last text: start, excluded end, and a label, or "".
    spans: Sequence[tuple[int, int, str]] = ()
    # Changes to its first text: start, excluded end, the old part and the new one.
    edits: Sequence[tuple[int, int, str, str]] = ()
    others: Sequence[str] = ()  # the next best texts
