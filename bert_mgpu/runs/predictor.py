"""A trained model that answers examples, a few at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bert_mgpu.core.rows import Example
from bert_mgpu.core.task import Predictions
from bert_mgpu.evaluation.forward import ForwardSettings, scored_rows
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers


@dataclasses.dataclass(frozen=True)
class Predictor:
    """The parts of a trained model that predictions take, in one process."""

    task: FinetuningTask
    data: TaskDataset
    towers: Towers
    settings: ForwardSettings

    @classmethod
    def of_run(cls, run: FinetuningRun, towers: Towers) -> Predictor:
        """Batches have few shapes, since the numbers of examples differ."""
        settings = run.forward_settings("predict", predicting=True)
        settings = dataclasses.replace(settings, streams=True)
        return cls(run.task, run.data, towers, settings)

    @property
    def batch(self) -> int:
        """The examples that the towers take at once."""
        return self.towers.n_towers * self.settings.batch_size

    def predict(self, examples: Sequence[Example]) -> Predictions:
        """Raises OutOfMemory where not even one example fits, Diverged: `forward`."""
        scored = scored_rows(
            self.task,
            self.data.featurise(examples),
            self.towers,
            settings=self.settings,
            examples=lambda: examples,
            note=lambda text: None,
        )
        return self.task.decide(scored)
