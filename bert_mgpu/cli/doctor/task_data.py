"""Looks through the files of a task: python -m bert_mgpu doctor data FLAGS

  python -m bert_mgpu doctor data --task_name=reviews --data_dir=data/reviews \\
    --vocab_file=model/vocab.txt --max_seq_length=128

Takes the flags of run_classifier_mgpu.py, also those that mean nothing here, and reads
the train, dev and test file (or --predict_file) as a training would; changes nothing.
Exit codes: 0 told; 2 rows that cannot be read, or wrong flags.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from bert_mgpu.checkpoints import pretrained
from bert_mgpu.cli import process
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import terminal
from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import data_checks, reader, registry, sources
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import Census, in_blocks

_FAULTS, _UNKNOWN = 20, 20  # that are shown
_NUMBER = 12  # columns of the terminal


class Set(NamedTuple):
    """A file that was read."""

    split: str
    path: pathlib.Path
    examples: list[Example]
    faults: list[str]
    labelled: bool


def main(argv: Sequence[str]) -> int:
    """The flags -> the exit code."""
    return process.run(
        ["", *argv],
        __doc__,
        FinetuneConfig,
        work=_tell,
        explained=_explained,
        stopped="nothing was changed",
    )


def _explained(config: FinetuneConfig, error: Exception) -> RunError | None:
    return process.explain(
        error, pathlib.Path(), "data_dir", smaller="use a larger machine"
    )


def _tell(config: FinetuneConfig) -> None:
    for name in ("task_name", "data_dir"):
        if getattr(config, name) is None:
            raise UserError(f"--{name} is missing (--help lists all flags)")
    files, words = registry.find_task_files(config), _tokenizer(config)
    family = registry.family_of(files)
    sets: list[Set] = []
    others = (
        *sources.named_files(config.eval_files),
        *sources.predicted(config.predict_file),
    )
    for name in ("train", "dev", *others):
        if _is_there(config, files, name):
            sets.append(_read(config, files, family, split=name))
        if name == "train" and sets:  # the other files may have no others
            files = family.with_labels_of(files, [sets[0].examples])
    if not sets:
        raise UserError(
            f"--data_dir={config.data_dir}: none of the task's files is there"
        )
    labelled = [one.examples for one in sets if one.labelled]
    files = family.with_labels_of(files, labelled)
    checked = {
        one.split: CheckedSet(
            one.split,
            str(one.path),
            family.features(one.examples, words, files, config=config),
            unknown=words.unk_id,
            labelled=one.labelled,
        )
        for one in sets
        if one.examples
    }
    if checked:
        print(_sizes(config, [*checked.values()]))
    of_labels = [one for one in checked.values() if one.labelled]
    for table in family.tables(of_labels, files) if checked else ():
        print(f"\n{table}")
    print(f"\n{_unknown(words, sets)}")
    warnings = functools.partial(family.warnings, files=files)
    found = data_checks.warnings(checked, warnings)
    faults = [fault for one in sets for fault in one.faults]
    print("\nlooks wrong:" if found or faults else "\nnothing looks wrong")
    for line in [*faults[:_FAULTS], *found]:
        print(f"- {line}")
    if len(faults) > _FAULTS:
        print(f"- and {len(faults) - _FAULTS} more rows that cannot be read")
    if faults:
        raise UserError(
            f"{len(faults)} rows cannot be read: a training would end there"
        )


def _tokenizer(config: FinetuneConfig) -> Tokenizer:
    if config.vocab_file:
        return Tokenizer(config.vocab_file, config.do_lower_case)
    return pretrained.find_model(
        config, pathlib.Path(config.output_dir or ".")
    ).tokenizer


def _is_there(config: FinetuneConfig, task: TaskFiles, split: str) -> bool:
    """Every set but the task's own has been named, and has to be there."""
    name = {"train": task.train, "dev": task.dev, "test": task.test}.get(split)
    if split not in sources.SPLITS or (split == "test" and config.predict_file):
        return True
    return bool(name) and pathlib.Path(str(config.data_dir), str(name)).exists()


def _read(
    config: FinetuneConfig, task: TaskFiles, family: Family, *, split: str
) -> Set:
    source = sources.source(
        task,
        split,
        data_dir=str(config.data_dir),
        eval_files=config.eval_files,
        predict_file=config.predict_file,
    )
    faults: list[str] = []
    labelled = source.labelled and task.columns_of(source.split).label is not None
    examples = []
    for example in reader.stream(
        task,
        source.path,
        source.split,
        label=family.read_label,
        with_label=labelled,
        faults=faults,
    ):
        if example.label == "":
            faults.append(f"{source.path}:{example.line}: the label is empty")
        else:
            examples.append(example)
    if not (examples or faults):
        raise UserError(f"{source.path}: no rows for the task {task.name}")
    return Set(split, source.path, examples, faults=faults, labelled=labelled)


def _sizes(config: FinetuneConfig, sets: Sequence[CheckedSet]) -> str:
    """Rows, lengths and what becomes of them: a column for each set."""

    def line(name: str, values: list[str]) -> tuple[str, ...]:
        return name, *values

    every = [one.features for one in sets]
    lines = [line("", [one.split for one in sets])]
    lines.append(line("rows", [str(len(one)) for one in every]))
    for share in every[0].notes["length_percentiles"]:
        values = [str(one.notes["length_percentiles"][share]) for one in every]
        lines.append(line(f"tokens of a row, {share} % have at most", values))
    truncated = [one.notes["truncated"] / one.notes["rows"] for one in every]
    what = f"truncated at {config.max_seq_length} tokens"
    lines.append(line(what, [f"{share:.1%}" for share in truncated]))
    lines.append(
        line("[UNK] among the tokens", [f"{s.unknown_share:.2%}" for s in sets])
    )
    again = [data_checks.count_repeated(one) for one in sets]
    lines.append(line("rows with the text of an earlier one", [*map(str, again)]))
    return terminal.align(lines, [_NUMBER] * len(sets))


def _unknown(words: Tokenizer, sets: Sequence[Set]) -> str:
    """What becomes [UNK], the most frequent first."""
    census = Census(words)
    texts = (
        (f"{one.path}:{example.line}", text)
        for one in sets
        for example in one.examples
        for text in (example.text_a, example.text_b or "")
    )
    for block in in_blocks(texts):
        census.add(block)
    unknown = [found for found in census.found() if not found.pieces]
    if not unknown:
        return "every word is in the vocabulary"
    unknown.sort(key=lambda found: (-found.count, found.word))
    shown = "  ".join(f"{found.word} {found.count}" for found in unknown[:_UNKNOWN])
    more = f"  and {len(unknown) - _UNKNOWN} others" if len(unknown) > _UNKNOWN else ""
    return "\n".join(terminal.wrap(f"becomes [UNK], and how often: {shown}{more}"))
