"""Vectors of texts, or of the lines of a file, by any model that can be read."""

from __future__ import annotations

import concurrent.futures
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bert_mgpu.checkpoints import initial_weights, pretrained, vocab_growth
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.features import TOKENS, FeaturesConfig
from bert_mgpu.core import log, text_files
from bert_mgpu.core.errors import NotFinite, UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.log import fact, say, weights_fact
from bert_mgpu.core.rows import Features
from bert_mgpu.evaluation import feature_files
from bert_mgpu.evaluation.feature_files import FeatureBlock, FeatureForm
from bert_mgpu.evaluation.forward import ForwardSettings
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import arrivals
from bert_mgpu.runs.run import FREQUENT, expect_few_shapes
from bert_mgpu.runs.vectors import Extractor, TextVectors
from bert_mgpu.tasks.feature_extraction import POOLER, FeatureExtraction
from bert_mgpu.text.pair_rows import Pair
from bert_mgpu.training.programs import Compilation
from bert_mgpu.training.towers import Towers

_BLOCK = 4096  # lines that are sorted by length together, unless batches are large
_FULL_BATCHES = 4  # of all towers, which are computed before they are written
_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")  # as Google's: split at the last |||


def load(config: FeaturesConfig, devices: Sequence[str]) -> Extractor:
    """Loads the model that the flags name onto devices of this process.

    Raises UserError if the model lacks what the flags ask for.
    """
    model = pretrained.find_model(config, max_seq_length=config.max_seq_length)
    for note in pretrained.notes(model, config.hidden_act):
        fact("model", note)
    task = make_task(config, model.bert_config)
    params = stored_params(str(config.init_checkpoint), task, model)
    if absent := task.param_specs().keys() - params:
        raise UserError(
            f"--init_checkpoint={config.init_checkpoint}: has no {min(absent)}: pass"
            " --pooling=cls or --pooling=mean"
        )
    return Extractor(
        model.required_tokenizer,
        task,
        make_towers(config, task, params, devices=devices),
        settings=forward_settings(config),
    )


def load_vectors(config: FeaturesConfig, devices: Sequence[str]) -> TextVectors:
    """Like `load`, but the model serves every pooling that its weights allow."""
    model = pretrained.find_model(config, max_seq_length=config.max_seq_length)
    length = config.max_seq_length
    task = FeatureExtraction(model.bert_config, length, how=POOLER)
    params = stored_params(str(config.init_checkpoint), task, model)
    if task.param_specs().keys() - params:
        task = FeatureExtraction(model.bert_config, length)
    towers = make_towers(config, task, params, devices=devices)
    return TextVectors(model, towers, forward_settings(config))


def make_task(config: FeaturesConfig, bert_config: BertConfig) -> FeatureExtraction:
    """The task that the flags ask for. Raises UserError if --layers does not fit."""
    try:
        task = FeatureExtraction(
            bert_config,
            config.max_seq_length,
            layer_indices=config.layer_indices,
            how=config.pooling,
            normalize=config.normalize,
        )
    except IndexError:
        count = bert_config.num_hidden_layers
        layers = f"{count} layer{'s' * (count != 1)}"
        wanted = f"numbers from 0 to {count - 1}, or from -1 to -{count}"
        raise UserError(
            f"--layers={config.layers}: the model has {layers}: pass"
            f" {wanted if count != 1 else '0 or -1'}"
        ) from None
    if config.pooling == POOLER and not task.takes_last:
        raise UserError(
            f"--layers={config.layers}: --pooling={POOLER} reads the last layer: leave"
            " the flag out"
        )
    return task


def stored_params(
    path: str, task: FeatureExtraction, model: Pretrained
) -> dict[str, np.ndarray]:
    """The task's weights in a checkpoint, without the pooler's if it has none.

    model: its vocabulary may be larger than that of the checkpoint.
    """
    specs = task.param_specs()
    absent = {name: np.full(shape, np.nan, "f") for name, (shape, _) in specs.items()}
    params = initial_weights.first_weights(
        specs, absent, path, say=weights_fact, model=model
    )
    for name in params.keys() & {*vocab_growth.TABLES}:
        params[name] = np.nan_to_num(params[name])  # rows that no token has
    return {n: value for n, value in params.items() if value is not absent[n]}


def make_towers(
    config: FeaturesConfig,
    task: FeatureExtraction,
    params: Mapping[str, np.ndarray],
    *,
    devices: Sequence[str],
) -> Towers:
    """Towers with these weights, in which XLA compiles passes of frequent shapes."""
    expect_few_shapes()
    slow = config.precision == "bfloat16" and "CPU" in devices[0]
    compilation = Compilation(False, False, None if slow else FREQUENT)
    towers = Towers(
        task,
        config.n_gpus,
        devices,
        seed=0,
        xla=compilation,
        precision=config.precision,
    )
    towers.load(params, {})
    return towers


def forward_settings(config: FeaturesConfig) -> ForwardSettings:
    """Settings with few shapes of batches, as for a stream, since blocks differ."""
    return ForwardSettings(
        "features",
        config.batch_size,
        config.max_seq_length,
        precision=config.precision,
        recompute="none",
        packs=False,
        streams=True,
    )


def parse(line: str) -> Pair:
    """Parses a line as google-research/bert does: a text, or two around ` ||| `."""
    line = line.strip()
    match = _PAIR.match(line)
    return (match[1], match[2]) if match else (line, None)


def extract(config: FeaturesConfig, extractor: Extractor) -> None:
    """Writes the vectors of the lines of --input_file to --output_file."""
    began, lines, task = time.perf_counter(), 0, extractor.task
    form = FeatureForm(
        config.layer_indices,
        task.value_shape,
        extractor.tokenizer.tokens,
        dtype=config.output_dtype,
    )
    output, bad = str(config.output_file), 0
    # Lines of a stream that cannot be read are answered, if by lines of JSON.
    answers = config.input_file == STANDARD_INPUT and feature_files.are_lines(output)
    unread: dict[int, str] = {}
    parts = _parts(config, extractor, unread if answers else None)
    with (
        feature_files.writer(output, form) as write,
        # It writes a block while the next one is computed.
        concurrent.futures.ThreadPoolExecutor(1) as thread,
    ):
        written: concurrent.futures.Future[bool] | None = None
        for rows in log.progress_bar(parts, "features", "blocks"):
            try:
                values = extractor.values(rows)
            except NotFinite as error:
                raise error.of(f"{config.input_file}:{lines + error.row + 1}") from None
            numbers = range(lines, lines + len(rows))
            errors = {n: unread.pop(n) for n in numbers if n in unread}
            block = FeatureBlock(lines, rows.ragged["input_ids"], values, unread=errors)
            bad += len(errors)
            if written and not written.result():
                return
            lines += len(rows)
            written = thread.submit(write, block)
        if written and not written.result():
            return
        if not lines and config.input_file != STANDARD_INPUT:
            raise UserError(f"{config.input_file}: holds no line: pass another file")
    seconds = time.perf_counter() - began
    rate = f"{seconds:.1f} s, {lines / seconds:.0f} a second"
    more = f"; {bad} could not be read" if bad else ""
    say(f"{lines} line{'s' * (lines != 1)} in {rate}: {output}{more}")


def _parts(
    config: FeaturesConfig, extractor: Extractor, unread: dict[int, str] | None = None
) -> Iterator[Features]:
    """The rows of the lines in order, in parts whose vectors are in memory together.

    If each token gets a vector, a part is a few batches, enough for every tower.
    unread: see `_blocks`.
    """
    lines = _FULL_BATCHES * config.n_gpus * config.batch_size
    most = lines * config.max_seq_length if config.pooling == TOKENS else None
    for pairs in _blocks(str(config.input_file), max(_BLOCK, lines), unread):
        rows = extractor.rows(pairs)
        for numbers in split(rows.lengths, most):
            yield rows.take(numbers)


def split(lengths: np.ndarray, most: int | None) -> Iterator[np.ndarray]:
    """The indices of rows in order, in parts of at most `most` tokens.

    A longer row is a part of its own. If `most` is None, there is one part.
    """
    if most is None:
        yield np.arange(len(lengths))
        return
    start = 0
    while start < len(lengths):
        fit = np.searchsorted(np.cumsum(lengths[start:]), most, side="right")
        end = start + max(1, int(fit))
        yield np.arange(start, end)
        start = end


def _blocks(
    path: str, most: int, unread: dict[int, str] | None = None
) -> Iterator[list[Pair]]:
    """The lines of a file in blocks of at most `most` lines.

    A block of standard input has the lines that have arrived so far. unread: gets the
    number, from 0, and the fault of each line of standard input that cannot be read,
    which stands in its block as an empty text; None: the first one raises UserError.
    """
    if path == STANDARD_INPUT:

        def read(put: Callable[[Pair], None]) -> None:
            def fault(line: int, error: str) -> None:
                assert unread is not None
                unread[line - 1] = error
                put(("", None))

            faults = None if unread is None else fault
            for _, text in text_files.read_lines(path, faults=faults):
                put(parse(text))

        yield from arrivals.blocks(read, most)
        return
    pairs = (parse(text) for _, text in text_files.read_lines(path))
    while block := [*itertools.islice(pairs, most)]:
        yield block
