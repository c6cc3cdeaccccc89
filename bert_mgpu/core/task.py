"""The protocol of a task: its parameters, losses and outputs, and their scores."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_mgpu.core import tensor_names
from bert_mgpu.core.intervals import Interval
from bert_mgpu.core.rows import Example, Outputs, Rows

# A batch is a dict of tensors under google-research/bert's names. Shapes, with
# B rows and T tokens: input_ids, input_mask, segment_ids int32 [B, T];
# label_ids [B, ...], as its task says; is_real_example float32 [B], 0 for rows that
# only fill the batch; masked_lm_positions, masked_lm_ids int32 [B, P],
# masked_lm_weights float32 [B, P].
Batch = Mapping[str, Any]
Params = Mapping[str, Any]  # name as in a Google TF1 checkpoint -> tensor
# A pass of the model over rows, in all processes together: {} where there are no rows.
Forward = Callable[[Rows], Outputs]
ReadExamples = Callable[[], Sequence[Example]]  # reads the examples of a set


class DropoutKey(NamedTuple):
    """The key of a forward pass's dropout masks.

    They are a function of (seed, step, a row's index in the global batch, site), so
    neither towers nor devices change them.
    """

    seed: Any  # uint64 scalar
    step: Any  # int64 scalar, the optimizer step
    first_row: Any  # int64 scalar, index of the batch's row 0 in the global batch


class Task(Protocol):
    """A task: all that the loop, evaluation and prediction know of it."""

    name: str
    lower_is_better: frozenset[str]  # scores that are better when they are lower
    max_seq_length: int
    labels: tuple[str, ...]  # of the classes; empty where there are none
    unused_params: frozenset[str]  # parameters that no loss depends on
    token_outputs: frozenset[str]  # names of outputs with a value for each token
    shared_outputs: frozenset[str]  # names of outputs that are the same for every row
    # Parameter -> a line for the log where it is new, and the rest of the model is not.
    new_head_warnings: Mapping[str, str]
    facts: dict[str, Any]  # flag -> value that a trained model must agree with

    def param_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Every parameter: name -> (shape, initializer), see model/params.py."""
        ...

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        """Denominator of each loss, from the labels of arrays [B, ...] alone."""
        ...

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, Any]:
        """Numerator of each loss, float32 scalars; without a dropout key: inference."""
        ...

    def outputs(self, params: Params, batch: Batch) -> dict[str, Any]:
        """Tensors of a batch, [B, ...].

        Those that `token_outputs` names are [B, T, ...]. Where rows are packed, B
        examples share R rows of tokens, and these are [R, T, ...]. Of those that
        `shared_outputs` names a set has one, [1, ...].
        """
        ...

    def infer(self, rows: Any, forward: Forward) -> Outputs:
        """The outputs of a set of `Rows`; forward may be called several times.

        Every process calls it with the same rows, and gets the outputs of all.
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
        """The log of an evaluation: texts of one or several lines."""
        ...


@dataclasses.dataclass
class TrainState:
    """Everything that a resume needs."""

    params: dict[str, np.ndarray]
    slots: dict[str, np.ndarray]  # "NAME/adam_m", "NAME/adam_v", ...
    step: int = 0  # optimizer steps done; with the seed, also the data position
    identity: dict[str, Any] | None = None  # of the run; None: not ours (TF1)

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
    files: Mapping[str, Sequence[str]] = types.MappingProxyType({})  # further ones


class Trust(NamedTuple):
    """How far the scores of a set can be trusted."""

    intervals: Mapping[str, Interval] = types.MappingProxyType({})  # of scores, 95 %
    # The task's `metric` of answers that need no model, by what they are.
    floors: Mapping[str, float] = types.MappingProxyType({})
    one_answer: str = ""  # that nearly all rows get and should not: a line on it

    def without_points(self) -> Trust:
        """Only intervals with a width: drawing again from rows that are all right, or
        all wrong, says nothing of others.
        """
        kept = {name: (a, b) for name, (a, b) in self.intervals.items() if a < b}
        return self._replace(intervals=kept)


class Display(NamedTuple):
    """A prediction as people read it."""

    text: str
    bars: Sequence[tuple[str, float]] = ()  # a name and its share, 0 to 1
    # Parts of the example's last text: start, excluded end, and a word on each, or "".
    spans: Sequence[tuple[int, int, str]] = ()
    # What became of its first text: start, excluded end, the old part and the new one.
    edits: Sequence[tuple[int, int, str, str]] = ()
    others: Sequence[str] = ()  # the next best texts
