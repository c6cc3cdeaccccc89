"""Prints predictions: for rows of standard input as they arrive, and for one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bert_mgpu.core import files as files_lib
from bert_mgpu.core import log, terminal
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import fact, say
from bert_mgpu.core.rows import Example
from bert_mgpu.core.task import Display
from bert_mgpu.core.text_files import Faults
from bert_mgpu.evaluation import result_files
from bert_mgpu.runs import arrivals
from bert_mgpu.runs.predictor import Predictor
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.tasks import reader, row_names
from bert_mgpu.tasks.predict_format import find_format
from bert_mgpu.training.towers import Towers

_BAR, _SHARE = 30, 8  # terminal columns
_FULL, _HALF = "█", "▌"


class BadRow(NamedTuple):
    """A row that cannot be read."""

    line: int
    error: str


def predict(run: FinetuningRun, towers: Towers) -> None:
    """Writes a line of JSON, as in predictions.jsonl, for each row of standard input.

    Rows that have arrived so far are predicted together, up to a batch. The stream ends
    with the input, or when nobody reads the output any more. A row that cannot be read
    is answered with its error; with --strict it ends the stream, after the predictions
    of the rows before it.
    """
    say("predicting standard input, one line at a time, until it ends")
    predictor, count, bad = Predictor.of_run(run, towers), 0, 0

    def read(put: Callable[[Example | BadRow], None]) -> None:
        def unreadable(line: int, error: str) -> None:
            put(BadRow(line, error))

        for example in _rows(run, None if run.config.strict else unreadable):
            put(example)

    for block in arrivals.blocks(read, predictor.batch):
        examples = [row for row in block if isinstance(row, Example)]
        records = iter(predictor.predict(examples).records if examples else ())
        lines = [
            result_files.json_line(row.guid, row.line, next(records))
            if isinstance(row, Example)
            else json.dumps(row._asdict(), ensure_ascii=False) + "\n"
            for row in block
        ]
        if not log.write_stdout("".join(lines)):
            return
        count, bad = count + len(examples), bad + len(block) - len(examples)
    unread = f"; {bad} row{'s' * (bad != 1)} could not be read" if bad else ""
    say(f"predicted {count} example{'s' * (count != 1)}{unread}")


def _rows(run: FinetuningRun, faults: Faults | None) -> Iterator[Example]:
    """The rows of standard input as they arrive.

    faults: gets a message for each faulty row, instead of an error.
    """
    config, files, source = run.config, run.data.files, files_lib.STANDARD_INPUT
    found = find_format(
        files,
        source,
        files.columns_of("test"),
        asked=config.predict_format,
        encoding=config.encoding,
        data_dir=config.data_dir,
        faults=faults,
    )
    if found.note:
        fact("test", found.note)
    rows = reader.stream(
        files,
        source,
        "test",
        label=run.data.family.read_label,
        with_label=False,
        columns=found.columns,
        lines=found.lines,
        faults=faults,
    )
    for row in rows:
        yield from row_names.named([row])


def answer(run: FinetuningRun, towers: Towers) -> None:
    """Prints the prediction of --predict_text."""
    config, text_b = run.config, run.config.predict_text_b
    if run.data.takes_pairs and "predict_text_b" in config.given:
        text_b = text_b or ""  # a second text may be empty
    try:
        example = run.data.example(str(config.predict_text), text_b)
    except ValueError as error:
        advice = "leave --predict_text_b out" if config.predict_text_b else "pass both"
        raise UserError(
            f"--predict_text, --predict_text_b: {error}: {advice}"
        ) from None
    predictions = Predictor.of_run(run, towers).predict([example])
    for remark in predictions.remarks:
        fact("", remark)
    log.write_stdout(_drawn(run.task.display(predictions.records[0])))


def _drawn(display: Display) -> str:
    """The text of a prediction, a line with a bar for each of its values, and the next
    best texts.
    """
    lines = [display.text]
    width = max((terminal.width(name) for name, _ in display.bars), default=0)
    width = min(width, terminal.WIDTH - _BAR - _SHARE - 2)
    for name, value in display.bars:
        halves = round(2 * _BAR * value)
        bar = _FULL * (halves // 2) + _HALF * (halves % 2)
        lines.append(f"{terminal.fit(name, width)} {value:7.1%} {bar}".rstrip())
    return "\n".join([*lines, *display.others]) + "\n"
