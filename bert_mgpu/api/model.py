"""`bert_mgpu.load`: a trained model that predicts texts."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from bert_mgpu.api.prediction import Prediction, PredictionList
from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import log, run_files
from bert_mgpu.core.errors import (
    OutOfMemory,
    UserError,
    memory_advice,
    out_of_memory,
    short_repr,
)
from bert_mgpu.core.rows import Example

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.runs.predictor import Predictor

# A text; a pair; or a mapping with "text_a" and, of a pair, "text_b".
Text = str | tuple[str, str] | Sequence[str] | Mapping[str, str]
_LOADING = threading.Lock()  # the first load configures the whole process
_BLOCK = 1024  # texts that are sorted, predicted and held in memory at once


class Model:
    """A trained model. `load` makes it; threads may share it.

    Use it in a `with` block, or call `close`, to free its memory.
    """

    def __init__(self, predictor: Predictor, folder: str):
        self._predictor: Predictor | None = predictor
        self._lock = threading.Lock()
        self.folder = folder
        self.task_name = predictor.task.name
        self.labels = [*predictor.task.labels]
        self.takes_pairs = predictor.data.takes_pairs
        self.max_seq_length = predictor.task.max_seq_length

    @property
    def predictor(self) -> Predictor:
        """The parts of the model, for `bert_mgpu serve`. Raises UserError: closed."""
        if self._predictor is None:
            raise UserError(f"the model of {self.folder} is closed: load it again")
        return self._predictor

    def __repr__(self) -> str:
        return f"<Model of {self.folder}: {self.task_name}>"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the weights. A call that is under way ends first."""
        with self._lock:
            self._predictor = None

    # A text and an iterator are iterable too: the first that fits counts.
    @overload
    def predict(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(  # type: ignore[overload-overlap]
        self, texts: Iterator[Text]
    ) -> Iterator[Prediction]: ...
    @overload
    def predict(self, texts: Iterable[Text]) -> list[Prediction]: ...
    def predict(self, texts: Any) -> Any:
        """The predictions of texts, or of pairs of texts (see `Text`), in their order.

        A list gives a list, one text or pair one prediction. An iterator gives an
        iterator, which takes some 1,000 texts at a time.

        Raises:
          UserError: a text is no text, or the model takes pairs, or single texts; it
            names the index. The model is closed.
          OutOfMemory: not even one text at a time fits.
          Diverged: the outputs are not finite numbers.
        """
        pair = isinstance(texts, tuple) and len(texts) == 2 and self.takes_pairs
        one = isinstance(texts, (str, Mapping))
        if one or (pair and all(isinstance(text, str) for text in texts)):
            return next(self._predictions(iter([texts])))
        if isinstance(texts, bytes) or not hasattr(texts, "__iter__"):
            raise UserError(f"{short_repr(texts)}: pass a text, or a list of texts")
        if isinstance(texts, Iterator):
            return self._predictions(texts)
        return PredictionList(self._predictions(iter([*texts])))

    def _predictions(self, texts: Iterator[Text]) -> Iterator[Prediction]:
        start = 0
        while block := [*itertools.islice(texts, _BLOCK)]:
            pairs = [_texts(text, number) for number, text in enumerate(block, start)]
            examples = [self._example(*p, n) for n, p in enumerate(pairs, start)]
            start += len(block)
            yield from self._predict(examples, pairs)

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
) -> Model:
    """Loads a trained model: an `output_dir`, its `best/`, or an export of one.

    The arguments are flags of run_classifier_mgpu.py. TensorFlow may have been used
    before; then its devices and settings stay as they are. Nothing is printed or
    written.

    Raises:
      UserError: there is no trained model, or it does not fit together.
      OutOfMemory: its weights do not fit.
    """
    path = pathlib.Path(folder)
    config = _settings(
        path,
        use_best=use_best,
        threshold=threshold,
        predict_batch_size=predict_batch_size,
        n_gpus=n_gpus,
        device=device,
        precision=precision,
        max_seq_length=max_seq_length,
    )
    with _LOADING, log.quiet():
        devices = _devices(config)
        from bert_mgpu.runs import load as loading

        try:
            with _no_messages_of("tensorflow"):
                return Model(loading.load(config, path, devices), str(folder))
        except Exception as error:
            if shortage := out_of_memory(error):
                advice = memory_advice(False, config.recompute)
                raise OutOfMemory(f"{path}: {shortage}: {advice}") from None
            raise


def _settings(path: pathlib.Path, **flags: Any) -> FinetuneConfig:
    """The settings of a run that predicts with the model of a folder."""
    from bert_mgpu.checkpoints import pretrained, train_state

    if not path.is_dir():
        raise UserError(f"{path}: no such folder: pass that of a trained model")
    values = {"output_dir": path, "do_predict": True, "predict_file": "-", **flags}
    if not train_state.saved_steps(path):
        values["init_checkpoint"] = path
    config, _ = parsing.parse(["", *parsing.arguments(values)], "", FinetuneConfig)
    config, _ = pretrained.as_trained(config, path)
    if config.trained_task is None:
        if not (path / run_files.RUN).exists():
            raise UserError(
                f"{path}: no trained model, since it has no {run_files.RUN}: pass an"
                " output_dir of run_classifier_mgpu.py, its best/, or an export"
            )
        raise UserError(
            f"{path}: its run.json does not name the task: predict once by"
            " run_classifier_mgpu.py with --task_name and --data_dir, which keeps them"
        )
    return config


def _devices(config: FinetuneConfig) -> list[str]:
    """The devices of this process; where we load TensorFlow, configured for us."""
    if "tensorflow" in sys.modules:
        from bert_mgpu.distributed import devices

        return devices.present(config.device)
    with _no_native_messages():
        from bert_mgpu.distributed import devices

        # All GPUs: a model that is loaded later may use more than this one.
        named = devices.configure(
            config.device, 1, sys.maxsize, tf32=config.precision == "tf32"
        )
        devices.present(config.device)  # which makes them
        return named


@contextlib.contextmanager
def _no_messages_of(name: str) -> Iterator[None]:
    """Only errors of a logger are shown: notebooks show what TensorFlow tells."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _no_native_messages() -> Iterator[None]:
    """Nothing of what TensorFlow's C++ code says, to descriptor 2, is shown."""
    try:
        kept = os.dup(2)
    except OSError:  # it is closed, as in some services
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _texts(text: Any, number: int) -> tuple[str, str | None]:
    """The text or texts of an example. Raises UserError for anything else."""
    parts = text
    if isinstance(text, Mapping):
        if not {*text} <= {"text_a", "text_b"} or "text_a" not in text:
            raise UserError(
                f"texts[{number}]: {short_repr(text)}: its keys must be 'text_a' and,"
                " of a pair, 'text_b'"
            )
        parts = [text["text_a"], *([text["text_b"]] if "text_b" in text else [])]
    elif isinstance(text, str):
        parts = [text]
    is_list = isinstance(parts, Sequence) and 1 <= len(parts) <= 2
    if not is_list or not all(isinstance(part, str) for part in parts):
        raise UserError(
            f"texts[{number}]: {short_repr(text)}: pass a string, or a pair of strings"
        )
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        raise UserError(
            f"texts[{number}]: half a character, an unpaired surrogate: leave it out"
        ) from None
    return parts[0], parts[1] if len(parts) == 2 else None
