"""`bert_mgpu.load`: a trained model that predicts texts."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from bert_mgpu.api import encoder, loading
from bert_mgpu.api.loading import LoadedParts, own_devices, silent_load
from bert_mgpu.api.prediction import Prediction, PredictionList
from bert_mgpu.api.texts import Text, texts_of
from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import CHOICES, FinetuneConfig
from bert_mgpu.core import log, run_files
from bert_mgpu.core.errors import (
    NotFinite,
    UserError,
    short_repr,
)
from bert_mgpu.core.rows import Example

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.runs.predictor import Predictor


class Model(LoadedParts["Predictor"]):
    """A trained model, made by `load`; threads may share it.

    Use it in a `with` block, or call `close`, to free its memory.
    """

    def __init__(self, predictor: Predictor, folder: str):
        super().__init__(predictor, folder)
        self.folder = folder
        self.task_name = predictor.task.name
        self.labels = [*predictor.task.labels]
        self.takes_pairs = predictor.data.takes_pairs
        self.max_seq_length = predictor.task.max_seq_length

    @property
    def predictor(self) -> Predictor:
        """The model's parts, for `bert_mgpu serve`. Raises UserError if closed."""
        return self._open_parts()

    def __repr__(self) -> str:
        return f"<Model of {self.folder}: {self.task_name}>"

    # Strings and iterators are iterable too: the first overload that fits counts.
    @overload
    def predict(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(  # type: ignore[overload-overlap]
        self, texts: Iterator[Text]
    ) -> Iterator[Prediction]: ...
    @overload
    def predict(self, texts: Iterable[Text]) -> list[Prediction]: ...
    def predict(self, texts: Any) -> Any:
        """The predictions for texts or pairs of texts (see `Text`), in their order.

        A list gives a list; a single text or pair gives a single prediction. An
        iterator gives an iterator, which reads about 1,000 texts at a time.

        Raises:
          UserError: an item is not a text, or is a pair where the model takes single
            texts, or the reverse (the message has its index); or the model is closed.
          OutOfMemory: not even one text at a time fits.
          Diverged: the outputs are not finite numbers.
        """
        pair = isinstance(texts, tuple) and len(texts) == 2 and self.takes_pairs
        one = isinstance(texts, (str, Mapping))
        if one or (pair and all(isinstance(text, str) for text in texts)):
            return next(self._predictions(iter([texts])))
        if not loading.are_texts(texts):
            raise UserError(f"{short_repr(texts)}: {loading.NO_TEXTS}")
        if isinstance(texts, Iterator):
            return self._predictions(texts)
        return PredictionList(self._predictions(iter([*texts])))

    def encode(
        self,
        texts: str | Iterable[Text],
        pooling: str = "mean",
        normalize: bool = False,
    ) -> np.ndarray:
        """The vectors of texts or pairs, regardless of the task: float32 [n, H].

        A single text gives [H]. The vectors come from the encoder's last layer. Texts
        longer than max_seq_length, or than a segment of --max_segments, are truncated
        without a message: the vector is that of the beginning.

        Args:
          pooling: the state of [CLS] ("cls"), the mean or the maximum over all tokens
            ("mean", "max"), or the pooled output that a classifier reads ("pooler").
          normalize: scale each vector to length 1.

        Raises:
          UserError: an item is not a text (the message has its index), normalize is
            not a bool, or the model has no pooler or is closed.
          OutOfMemory, Diverged: as `predict`.
        """
        return encoder.encode(
            texts,
            pooling,
            normalize,
            lock=self._lock,
            vectors_of_model=lambda: self.predictor.vectors,
        )

    def _predictions(self, texts: Iterator[Text]) -> Iterator[Prediction]:
        start = 0
        while block := [*itertools.islice(texts, loading.BLOCK)]:
            pairs = [texts_of(text, number) for number, text in enumerate(block, start)]
            examples = [self._example(*p, n) for n, p in enumerate(pairs, start)]
            try:
                yield from self._predict(examples, pairs)
            except NotFinite as error:
                raise error.of(f"texts[{start + error.row}]") from None
            start += len(block)

    def _example(self, text_a: str, text_b: str | None, number: int) -> Example:
        try:
            return self.predictor.data.example(text_a, text_b)
        except ValueError as error:
            form = '("first", "second")' if self.takes_pairs else '"text"'
            raise UserError(f"texts[{number}]: {error}: pass {form}") from None

    def _predict(
        self, examples: Sequence[Example], pairs: Sequence[tuple[str, str | None]]
    ) -> list[Prediction]:
        with self._lock, log.quiet():
            task = self.predictor.task
            records = self.predictor.predict(examples).records
        return [
            Prediction(
                task.attributes(record),
                record,
                answer=task.display(record).text,
                texts=texts,
            )
            for record, texts in zip(records, pairs, strict=True)
        ]


def load(
    folder: str | os.PathLike[str],
    *,
    use_best: bool = False,
    threshold: float | str | Mapping[str, float] | None = None,
    predict_batch_size: int | None = None,
    n_gpus: int = 1,
    device: str = "auto",
    precision: str = "float32",
    max_seq_length: int | None = None,
    **choices: Any,
) -> Model:
    """Loads a trained model from an `output_dir`, its `best/`, or an export.

    The arguments are flags of run_classifier_mgpu.py; choices: those of one task type
    on which predictions depend, such as keep_bias. If TensorFlow has been imported
    before, its devices and settings stay as they are. Nothing is printed or written.

    Raises:
      UserError: there is no trained model, or its files do not match each other.
      OutOfMemory: its weights do not fit into memory.
    """
    for name in choices.keys() - {*CHOICES}:
        raise TypeError(f"load() got an unexpected keyword argument {name!r}")
    path = loading.path_of(folder)
    config = _settings(
        path,
        use_best=use_best,
        threshold=threshold,
        predict_batch_size=predict_batch_size,
        n_gpus=n_gpus,
        device=device,
        precision=precision,
        max_seq_length=max_seq_length,
        **choices,
    )
    with silent_load(path, config.recompute):
        devices = own_devices(config.device, config.precision)
        from bert_mgpu.runs import load as load_run

        return Model(load_run.load(config, path, devices), str(folder))


def _settings(path: pathlib.Path, **flags: Any) -> FinetuneConfig:
    """The settings of a run that predicts with the model in a folder."""
    from bert_mgpu.checkpoints import pretrained, run_folder, train_state

    if not path.is_dir():
        raise UserError(f"{path}: no such folder: pass that of a trained model")
    values = {"output_dir": path, "do_predict": True, "predict_file": "-", **flags}
    if not train_state.saved_steps(path):
        values["init_checkpoint"] = path
    config, _ = parsing.parse(["", *parsing.arguments(values)], "", FinetuneConfig)
    config, _ = pretrained.as_trained(config, path)
    if config.trained_task is None:
        if not (path / run_files.RUN).exists():
            raise run_folder.no_model(path)
        raise UserError(
            f"{path}: its run.json does not name the task: predict once with"
            " run_classifier_mgpu.py with --task_name, --data_dir and --export_hf=NEW,"
            " and load NEW"
        )
    return config
