"""Checks the files of a task: bert_mgpu doctor data FLAGS

  bert_mgpu doctor data --task_name=reviews --data_dir=data/reviews \\
    --vocab_file=model/vocab.txt --max_seq_length=128

Takes the flags of run_classifier_mgpu.py and uses those about data and text. Reads
the train, dev and test files (or --predict_file) as training would, and changes
nothing; --repaired_dir=NEW writes repaired copies. Exit codes: 0 done; 2 unreadable
rows or files, or wrong flags.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bert_mgpu.checkpoints import pretrained, train_state
from bert_mgpu.cli import script
from bert_mgpu.cli.doctor import findings as findings_lib
from bert_mgpu.cli.doctor import (
    first_rows,
    near_rows,
    repaired_files,
    suspect_labels,
    task_sets,
)
from bert_mgpu.cli.doctor.findings import Findings
from bert_mgpu.cli.flag_checks import check_needed
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.task_data import TaskDataConfig
from bert_mgpu.core import terminal, units
from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import check_writable
from bert_mgpu.core.rows import Example
from bert_mgpu.data.cache import length_notes
from bert_mgpu.evaluation import html
from bert_mgpu.tasks import data_checks, registry, sources
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import (
    CandidateWord,
    Census,
    in_blocks,
    plain_characters,
)

_MOST_UNKNOWN = 20  # words that are shown
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NO_LIMIT, _NO_ID = 10**6, -1
_ALWAYS = (  # what the doctor looks for
    "lines that cannot be read",
    "rows without text",
    "duplicate and near-duplicate texts within and across files",
)
_WITH_TOKENS = ("truncated texts", "unknown words")
_NO_MODEL = (
    "tokens, truncation and unknown words are not checked: pass --init_checkpoint, or"
    " --vocab_file"
)
_NUMBER_WIDTH = 12  # terminal columns
_SIZE_WIDTH = len("100 % have at most..")  # which distinguishes sizes


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    return script.run(
        ["", *argv],
        __doc__,
        TaskDataConfig,
        work=_report,
        output=lambda config: (pathlib.Path(), "data_dir"),
        memory_hint="use a larger machine",
        stopped="no data file was changed",
    )


def _report(config: TaskDataConfig) -> None:
    """Prints sizes, labels, unknown words and problems of all sets."""
    check_needed(config, ["task_name", "data_dir"])
    target = pathlib.Path(config.repaired_dir) if config.repaired_dir else None
    if target:
        repaired_files.check(target)
        folders = pathlib.Path(config.html or target).resolve().parents
        if target.resolve() in folders:
            raise UserError(
                f"--html={config.html}: --repaired_dir={target} will be a new folder:"
                " pass another place for the page"
            )
    if config.html:
        findings_lib.check_page(pathlib.Path(config.html))
        check_writable(pathlib.Path(config.html), "html")
    files, known = registry.find_task_files(config), _tokenizer(config)
    if known is None:  # tokens cannot be counted
        config = dataclasses.replace(config, max_seq_length=_NO_LIMIT)
    family = registry.family_of(files, config)
    if config.check_labels:
        family.doubts(files, [])  # refused, for some types, before anything is read
    sets: list[task_sets.ReadSet] = []
    others = (
        *sources.named_files(config.eval_files),
        *sources.predicted(config.predict_file),
    )
    for name in ("train", "dev", *others):
        if task_sets.is_read(config, files, name):
            sets.append(task_sets.read(config, files, family, split=name))
        if name == "train" and sets:  # the other files must have its labels
            files = family.with_labels_of(files, [sets[0].examples])
    if not sets:
        names = [name for name in map(files.file_of, sources.SPLITS) if name]
        raise UserError(
            f"--data_dir={config.data_dir}: it holds none of the task's files:"
            f" {', '.join(names)}"
        )
    labelled = [read.examples for read in sets if read.labelled]
    files = family.with_labels_of(files, labelled)
    tokenizer = known or _word_tokenizer(
        text for read in sets for example in read.examples for text in _texts(example)
    )
    checked = {
        read.split: CheckedSet(
            read.split,
            str(read.path),
            family.features(read.examples, tokenizer, files, config=config),
            unknown=known.unk_id if known else _NO_ID,
            labelled=read.labelled,
            examples=read.examples,
        )
        for read in sets
        if read.examples
    }
    findings = Findings()
    if checked:
        columns = terminal.columns_of(sys.stdout)
        findings.draw("first rows", functools.partial(first_rows.shown, sets), columns)
        length = config.length_in_words if known else None
        sizes = functools.partial(_sizes, [*checked.values()], length)
        findings.draw("sizes", sizes, terminal.narrow(sys.stdout))
    with_labels = [each for each in checked.values() if each.labelled]
    for table in family.tables(with_labels, files) if checked else ():
        findings.show("labels", table)
    unknown = _unknown_words(known, sets) if known else []
    text = _shown_words(unknown) if known else _NO_MODEL
    columns = terminal.narrow(sys.stdout)
    wrapped = "\n".join(terminal.wrap(text, columns))
    findings.show("vocabulary", wrapped, html.note(text))
    plain = known and plain_characters(known, _signs_to_mend(unknown, files)) or {}
    warnings_of = functools.partial(family.warnings, files=files)
    warnings = data_checks.warnings(checked, warnings_of)
    looked_for = [*_ALWAYS, *_WITH_TOKENS] if known else [*_ALWAYS]
    if config.check_labels:
        doubted = suspect_labels.SuspectLabels(sets, family, files)
        shown = doubted.text(terminal.columns_of(sys.stdout))
        findings.show("labels that look wrong", shown, doubted.page())
        warnings += doubted.warnings()
        looked_for += ["doubtful labels"] * doubted.learns
    warnings += _signs(unknown, plain, copied=not family.has_windows)
    near = near_rows.find(sets)
    warnings += near_rows.warnings(near)
    findings.on_page("rows with nearly the same text", near_rows.page(near))
    lines = [*task_sets.missing(config, files)]
    lines += [line for read in sets for line in read.problems] + warnings
    findings.list_problems(lines, looked_for)
    if config.html:
        title = f"{config.task_name}: {config.data_dir}"
        findings.write(pathlib.Path(config.html), title)
    if count := sum(len(read.faults) for read in sets):
        faults = "fault" if count == 1 else "faults"
        predicted = sources.predicted(config.predict_file)
        ends = all(read.split in predicted for read in sets if read.faults)
        raise UserError(
            f"{count} {faults} in rows that cannot be read:"
            f" {'prediction' if ends else 'training'} would stop there"
        )
    if target:
        repaired_files.check(target)  # again: it may have been made since
        said = repaired_files.write(
            target,
            sets,
            files,
            family=family,
            data_dir=str(config.data_dir),
            repair_bio=bool(config.repair_bio),
            plain=plain,
        )
        print("", *said, sep="\n")


def _signs_to_mend(unknown: Sequence[CandidateWord], task: TaskFiles) -> list[str]:
    """The unknown words, without those that mark slots."""
    return [word.word for word in unknown if word.word not in task.marks]


def _signs(
    unknown: Sequence[CandidateWord], plain: Mapping[str, str], *, copied: bool
) -> Iterator[str]:
    """One line on typographic signs that the vocabulary lacks, if there are any."""
    lost = [word for word in unknown if word.word in plain]
    if lost:
        count = sum(word.count for word in lost)
        own = " ".join(dict.fromkeys(plain[word.word] for word in lost))
        yield (
            f"{lost[0].location}: {' '.join(word.word for word in lost)} become [UNK],"
            f" {units.counted(count, 'time')}; the vocabulary has {own}: use those"
            " instead, also in new texts"
            + "; --repaired_dir=NEW writes repaired copies"
            * copied
        )


def _tokenizer(config: FinetuneConfig) -> Tokenizer | None:
    """The tokenizer of the model, or of --vocab_file alone; None if neither is named.

    An output_dir in which a training is yet to begin holds no model.
    """
    folder = pathlib.Path(config.output_dir) if config.output_dir else None
    trained = folder is not None and bool(train_state.saved_steps(folder))
    if config.vocab_file and not (config.init_checkpoint or trained):
        return Tokenizer(config.vocab_file, config.do_lower_case)
    if not (config.init_checkpoint or folder):
        return None
    length = config.max_seq_length
    model = pretrained.find_model(config, folder, max_seq_length=length)
    return model.required_tokenizer


def _word_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """A tokenizer without a vocabulary: each word or Chinese character is a token."""
    cut = Normalizer(True).words
    words = {word for text in texts for word in cut(text)}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding=UTF_8) as file:
        file.write("".join(f"{token}\n" for token in (*_SPECIAL, *sorted(words))))
        file.flush()
        return Tokenizer(file.name, True)


def _texts(example: Example) -> Iterator[str]:
    """All texts of a row, including a label that is a text."""
    parts = (example.text_a, example.text_b, example.label)
    return (part for part in parts if isinstance(part, str))


def _sizes(sets: Sequence[CheckedSet], longest: str | None, columns: int) -> str:
    """A table of rows, lengths, truncation and repeats, with a column for each set.

    longest: the maximum length in tokens; None if tokens are words.
    """
    features = [each.features for each in sets]
    lines = [["", *(each.split for each in sets)]]
    lines.append(["rows", *(str(len(each.first_rows)) for each in features)])
    notes = [each.notes for each in features]
    if not longest:  # no row is cut: one row for each example
        notes = [length_notes(each.text_lengths, 0) for each in sets]
    percentiles = [each["length_percentiles"] for each in notes]
    for percent in percentiles[0]:
        values = [str(each[percent]) for each in percentiles]
        what = "tokens" if longest else "words"
        lines.append([f"{percent} % have at most ({what})", *values])
    if longest:
        truncated = [each.notes["truncated"] / each.notes["rows"] for each in features]
        name = f"truncated at {longest} tokens"
        lines.append([name, *(f"{share:.1%}" for share in truncated)])
        unknown = [each.unknown_share for each in sets]
        lines.append(["[UNK] among the tokens", *(f"{share:.2%}" for share in unknown)])
    repeats = [data_checks.count_repeated(each) for each in sets]
    lines.append(["repeated texts", *map(str, repeats)])
    widths = [_NUMBER_WIDTH] * len(sets)
    return terminal.align(lines, widths, columns, least=_SIZE_WIDTH)


def _unknown_words(
    tokenizer: Tokenizer, sets: Sequence[task_sets.ReadSet]
) -> list[CandidateWord]:
    """The words that become [UNK], the most frequent first."""
    census = Census(tokenizer)
    texts = (
        (f"{read.path}:{example.line}", text)
        for read in sets
        for example in read.examples
        for text in (example.text_a, example.text_b or "")
    )
    for block in in_blocks(texts):
        census.add(block)
    unknown = [candidate for candidate in census.candidates() if not candidate.pieces]
    return sorted(unknown, key=lambda word: (-word.count, word.word))


def _shown_words(unknown: Sequence[CandidateWord]) -> str:
    if not unknown:
        return "every word is in the vocabulary"
    shown = "  ".join(f"{word.word} {word.count}" for word in unknown[:_MOST_UNKNOWN])
    hidden = len(unknown) - _MOST_UNKNOWN
    more = f"  and {hidden} more" if hidden > 0 else ""
    return f"words that become [UNK], with counts: {shown}{more}"
