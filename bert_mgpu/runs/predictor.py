"""A trained model that predicts examples, a few at a time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.errors import Diverged, NotFinite
from bert_mgpu.core.rows import Example, Features, Outputs, Rows
from bert_mgpu.core.task import Predictions
from bert_mgpu.evaluation.forward import ForwardSettings, forward
from bert_mgpu.runs.run import FinetuningRun, expect_few_shapes
from bert_mgpu.runs.vectors import TextVectors
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.text import truncation
from bert_mgpu.training.towers import Towers

_MOST_UNKNOWN, _LONGEST_CUT = 20, 2000  # the most words and characters that are shown


@dataclasses.dataclass(frozen=True)
class Predictor:
    """The parts of a trained model that predictions need, in one process."""

    task: FinetuningTask
    data: TaskDataset
    towers: Towers
    settings: ForwardSettings

    @classmethod
    def of_run(cls, run: FinetuningRun, towers: Towers) -> Predictor:
        """The predictor of a run, with few batch shapes, however many examples come."""
        expect_few_shapes()
        settings = run.forward_settings("predict", predicting=True)
        settings = dataclasses.replace(settings, streams=True)
        return cls(run.task, run.data, towers, settings)

    @property
    def batch(self) -> int:
        """The number of examples that the towers take at once."""
        return self.towers.n_towers * self.settings.batch_size

    @functools.cached_property
    def vectors(self) -> TextVectors:
        """Computes the vectors of texts with the encoder of this model."""
        return TextVectors(self.data.model, self.towers, self.settings)

    def predict(self, examples: Sequence[Example]) -> Predictions:
        """The predictions of these examples.

        Raises OutOfMemory if not even one example fits, and Diverged as `forward` does:
        if it is a NotFinite, its row is the index of an example.
        """
        try:
            rows, outputs = self._infer(examples)
        except NotFinite as error:
            if self._has_rows:
                raise Diverged(str(error)) from None
            raise
        return self._decide(examples, rows, outputs)

    def answers(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        """The outputs for each example, as an exported model has them, as JSON values.

        If an example may have several rows, the records of predictions instead.
        """
        rows, outputs = self._infer(examples)
        if self._has_rows:
            return [*self._decide(examples, rows, outputs).records]
        columns = {
            name: _as_json(np.asarray(values))
            for name, values in self.task.answers(outputs).items()
        }
        return [
            {name: values[index] for name, values in columns.items()}
            for index in range(len(examples))
        ]

    def explain(self, example: Example) -> dict[str, Any]:
        """A prediction for people, with what the model did not read, as JSON values.

        The fields of `Display`, and tokens: how many the model read; of: how many
        the texts have; cut: the text left out; unknown: words that became [UNK]. The
        first three are missing if an example may have several rows.
        """
        display = self.task.display(self.predict([example]).records[0])
        answer: dict[str, Any] = display._asdict()
        config, tokenizer = self.data.config, self.data.model.required_tokenizer
        texts, marks = [example.text_a, example.text_b or ""], self.data.files.marks
        pieces = [tokenizer.ids_with_offsets(text) for text in texts]
        unknown = {
            text[start:end]: None
            for text, own in zip(texts, pieces, strict=True)
            for token, start, end in own
            if token == tokenizer.unk_id and text[start:end] not in marks
        }
        answer["unknown"] = [*unknown][:_MOST_UNKNOWN]
        if not self._has_rows and self.task.reads_both_texts:  # one row
            counts = [len(own) for own in pieces]
            kept = truncation.fit_row(
                range(counts[0]),
                range(counts[1]),
                self.task.segments.longest,
                how=config.truncation,
                head_tokens=config.head_tokens,
            )
            left_out = [
                _left_out(*parts) for parts in zip(texts, pieces, kept, strict=True)
            ]
            answer["cut"] = " ... ".join(filter(None, left_out))[:_LONGEST_CUT]
            answer |= {"tokens": sum(map(len, kept)), "of": sum(counts)}
        return answer

    @property
    def _has_rows(self) -> bool:
        """Whether an example may have several rows or need several passes."""
        family = self.data.family
        return family.has_windows or not family.exportable

    def _infer(self, examples: Sequence[Example]) -> tuple[Features, Outputs]:
        rows = self.data.featurise(examples)

        def passed(rows: Rows) -> Outputs:
            return forward(rows, self.towers, self.settings, note=lambda text: None)

        return rows, self.task.infer(rows, passed)

    def _decide(
        self, examples: Sequence[Example], rows: Features, outputs: Outputs
    ) -> Predictions:
        return self.task.decide(self.task.scored_rows(outputs, rows, lambda: examples))


def _as_json(values: np.ndarray) -> list[Any]:
    """An array [rows, ...] as nested lists of plain numbers or texts."""
    if values.dtype == object:  # texts, which TensorFlow returns as bytes
        return [text.decode() for text in values.tolist()]
    plain: list[Any] = values.tolist()
    return plain


def _left_out(
    text: str, pieces: Sequence[tuple[int, int, int]], kept: Sequence[int]
) -> str:
    """The part of a text whose tokens were not kept, which are contiguous."""
    lost = sorted({*range(len(pieces))} - {*kept})
    return text[pieces[lost[0]][1] : pieces[lost[-1]][2]] if lost else ""
