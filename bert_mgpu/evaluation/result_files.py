"""The files that evaluation and prediction write."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import make_folder, write_text
from bert_mgpu.core.rows import Features
from bert_mgpu.core.task import Predictions

_OF = "rows"  # a key in baseline.json: which rows the scores are for


def write_evaluation(
    output_dir: pathlib.Path, values: Mapping[str, Any], name: str | None = None
) -> bool:
    """Writes eval_results.txt, or eval_results_NAME.txt, in the order of the values.

    Returns whether that changes the file.
    """
    text = "".join(f"{key} = {value}\n" for key, value in values.items())
    path = output_dir / evaluation_file(name)
    changes = not path.is_file() or path.read_bytes() != text.encode()
    write_text(path, text)
    return changes


def evaluation_file(name: str | None = None) -> str:
    """The name of a set's file of scores; without a name, that of the dev set's."""
    return f"eval_results{f'_{name}' if name else ''}.txt"


def read_evaluation(path: pathlib.Path) -> dict[str, float]:
    """The values that `write_evaluation` wrote."""
    lines = (line.split(" = ") for line in path.read_text("utf-8").splitlines())
    return {name: float(value) for name, value in lines}


def over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Score -> its mean and its sample standard deviation (n - 1) over runs."""
    common = [name for name in runs[0] if all(name in scores for scores in runs)]
    return {
        name: {
            "mean": statistics.fmean(scores[name] for scores in runs),
            "deviation": statistics.stdev(scores[name] for scores in runs),
        }
        for name in common
    }


def write_baseline(
    output_dir: pathlib.Path, scores: Mapping[str, Any], contents: Mapping[str, str]
) -> None:
    """Writes baseline.json: the baseline's scores of each set.

    contents: for each set, what distinguishes it from others of the same name.
    """
    facts = {name: {**own, _OF: contents[name]} for name, own in scores.items()}
    write_text(output_dir / run_files.BASELINE, json.dumps(facts, indent=2) + "\n")


def read_baseline(
    output_dir: pathlib.Path, contents: Mapping[str, str] | None = None
) -> dict[str, dict[str, float]]:
    """Set -> the scores that `write_baseline` wrote; {} if they cannot be read.

    contents: those of the wanted sets, as in `write_baseline`; None: all sets there.
    """
    return {
        name: {n: v for n, v in scores.items() if isinstance(v, int | float)}
        for name, scores in read_objects(output_dir / run_files.BASELINE).items()
        if contents is None or contents.get(name) == scores.get(_OF, "")
    }


def read_objects(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The objects in the JSON object of a file; {} if it cannot be read."""
    try:
        content = files.read_json(path)
    except UserError:
        return {}
    return {name: value for name, value in content.items() if isinstance(value, dict)}


def first_weights(output_dir: pathlib.Path, given: str | None) -> str | None:
    """The --init_checkpoint from which a run began, before any resumption.

    given: that of this command, which a run that is there does not read.
    """
    flags = read_objects(output_dir / run_files.RUN).get("flags", {})
    return flags.get("init_checkpoint", given)


def write_sentence_scores(
    output_dir: pathlib.Path, scores: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Writes test_results.json, as bert-ad did, and predictions.jsonl.

    scores: those of every line of the file, in order. Returns the names of the files.
    """
    lines = (
        json.dumps({"line": line, **score}, ensure_ascii=False) + "\n"
        for line, score in enumerate(scores, 1)
    )
    files: dict[str, str | Iterable[str]] = {
        run_files.SENTENCES: json.dumps(scores, indent=2, ensure_ascii=False),
        run_files.RECORDS: lines,
    }
    for name, content in files.items():
        write_text(output_dir / name, content)
    return list(files)


def json_line(name: str | int, line: int, record: Mapping[str, Any]) -> str:
    """A line of predictions.jsonl; the keys after "line" are those of `decide`."""
    return json.dumps({"id": name, "line": line, **record}, ensure_ascii=False) + "\n"


def json_lines(
    predictions: Predictions, features: Features, ids: Sequence[str | int] | None = None
) -> Iterator[str]:
    """The lines of predictions.jsonl, each made on demand; see `write_predictions`."""
    lines = features.lines[features.first_rows].tolist()
    names = ids or [f"test-{line - 1}" for line in lines]
    entries = len(predictions.texts), len(predictions.values), len(predictions.records)
    if {*entries, len(names)} != {len(lines)}:
        raise ValueError(f"{entries} predictions of {len(lines)} examples")
    rows = zip(names, lines, predictions.records, strict=True)
    return (json_line(name, line, record) for name, line, record in rows)


def write_predictions(
    output_dir: pathlib.Path,
    predictions: Predictions,
    features: Features,
    *,
    ids: Sequence[str | int] | None = None,
) -> list[str]:
    """Writes predict.txt, test_results.tsv and predictions.jsonl.

    Files of an earlier prediction that this one lacks are removed. features: the
    predicted rows; ids: those of the examples, if they have any. Returns the names of
    the files. Raises ValueError unless each example has one prediction.
    """
    records = json_lines(predictions, features, ids)
    make_folder(output_dir)
    files = {
        run_files.PREDICTIONS: (f"{text}\n" for text in predictions.texts),
        run_files.VALUES: (
            "\t".join(map(str, values.tolist())) + "\n" for values in predictions.values
        ),
        run_files.RECORDS: records,
        **predictions.files,
    }
    for name in {*run_files.BESIDE_PREDICTIONS} - files.keys():
        (output_dir / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_text(output_dir / name, content)
    return list(files)
