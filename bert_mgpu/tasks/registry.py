"""The types of task.json with their task families, and the built-in tasks.

No other module knows all families. A family is imported only when it is requested,
since its model needs TensorFlow.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pathlib

from bert_mgpu.config.base import fields
from bert_mgpu.config.classification import WORDS, ClassificationFlags
from bert_mgpu.config.finetuning import LONG_TEXT_FLAGS, FinetuneConfig
from bert_mgpu.config.rewriting import RewritingFlags
from bert_mgpu.config.span_qa import SpanQaFlags
from bert_mgpu.config.tagging import TaggingFlags
from bert_mgpu.core import hashing
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import dev_share, task_json
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.classification import builtin
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.tasks.rewriting import files as rewriting
from bert_mgpu.tasks.span_qa import files as span_qa
from bert_mgpu.tasks.tagging import files as tagging
from bert_mgpu.tasks.task_keys import TaskType

_CLASSIFICATION = "bert_mgpu.tasks.classification.family"
TYPES = {
    "single": TaskType(
        _CLASSIFICATION,
        ClassificationFlags,
        own_columns=("group",),
        huggingface_problem_type="single_label_classification",
    ),
    "multi": TaskType(
        _CLASSIFICATION,
        ClassificationFlags,
        keys=("label_separator",),
        huggingface_problem_type="multi_label_classification",
    ),
    "regression": TaskType(
        _CLASSIFICATION,
        ClassificationFlags,
        names_labels=False,
        huggingface_problem_type="regression",
    ),
    tagging.TYPE: TaskType(
        "bert_mgpu.tasks.tagging.family",
        TaggingFlags,
        fewest_labels=1,
        keys=tagging.KEYS,
        model_keys=tagging.MODEL_KEYS,
        with_defaults=tagging.with_defaults,
        columns=tagging.columns,
    ),
    span_qa.TYPE: TaskType(
        "bert_mgpu.tasks.span_qa.family",
        SpanQaFlags,
        names_labels=False,
        keys=span_qa.KEYS,
        model_keys=span_qa.KEYS,
        takes_files=True,
        with_defaults=span_qa.with_defaults,
        columns=span_qa.columns,
    ),
    rewriting.TYPE: TaskType(
        "bert_mgpu.tasks.rewriting.family",
        RewritingFlags,
        names_labels=False,
        keys=rewriting.KEYS,
        model_keys=rewriting.MODEL_KEYS,
        with_defaults=rewriting.with_defaults,
    ),
}
BUILTIN = {**builtin.BUILTIN, **tagging.BUILTIN, **span_qa.BUILTIN}


def find_task_files(config: FinetuneConfig) -> TaskFiles:
    """The task that the flags ask for. Raises UserError, see `read_task_json`."""
    return task_json.read_task_json(config, BUILTIN, TYPES)


def remarks(config: FinetuneConfig, files: TaskFiles) -> list[str]:
    """Lines for the log about what a user may not expect of a task's files."""
    lines = [
        task_json.overlooked(
            str(config.task_name or files.name), config.data_dir, BUILTIN
        )
    ]
    pairs = files.columns.text_b is not None or files.columns.pair is not None
    by_words = files.has_slots and config.ad_slot == WORDS  # rows of the ad alone
    if config.truncation != "head" and pairs and not by_words:
        lines.append(
            f"--truncation={config.truncation}: pairs of texts are still cut at the end"
        )
    trained, table = config.trained_task, files.columns.table
    had_header = bool(trained and trained.values.get("header"))
    if had_header and config.header is None and table and not table.form.header:
        lines.append(
            "the first line is a row, since the columns are given by number: pass"
            " --header=true if it names them"
        )
    if config.dev_share != dev_share.of_run(config, files):
        lines.append(
            f"--dev_share={config.dev_share:g}, which the model was trained with, is"
            f" ignored: the task now has a dev file, {files.dev}"
        )
    return [*filter(None, lines)]


def family_of(files: TaskFiles, config: FinetuneConfig) -> Family:
    """The family that reads, trains and scores a task.

    Raises UserError for a flag that tasks of its type do not take.
    """
    family: Family = importlib.import_module(TYPES[files.task_type].module).FAMILY
    refused = {**family.refused_flags}
    if family.has_windows:
        refused["reads long texts in windows"] = LONG_TEXT_FLAGS
    useless = _flags_of_other_types(files.task_type) | {
        name: f"the type {files.task_type!r} {why}"
        for why, names in refused.items()
        for name in names
    }
    for name, why in useless.items():
        if name in config.given:
            raise UserError(
                f"--{name}={getattr(config, name)}: {why}: leave the flag out"
            )
    return family


def _flags_of_other_types(task_type: str) -> dict[str, str]:
    """Flag -> reason to refuse it, for the flags that only other types have."""
    found: dict[str, str] = {}
    own = TYPES[task_type].flags
    for table in dict.fromkeys(kind.flags for kind in TYPES.values()):
        if table is own:
            continue
        types = [repr(name) for name, kind in TYPES.items() if kind.flags is table]
        why = f"only for the type {' or '.join(types)}, not {task_type!r}"
        found |= {field.name: why for field in fields(table)}
    return found


@functools.cache
def code_of(family: type[Family]) -> str:
    """A hash of the code that turns a file into features."""
    shared = (
        "core.encodings",
        "core.rows",
        "core.rng",
        "core.text_files",
        "text",
        "data",
        "tasks",
    )
    folder = pathlib.Path(inspect.getfile(family)).parent
    own = [hashing.file_hash(file) for file in sorted(folder.glob("*.py"))]
    return hashing.fingerprint({"code": [hashing.hash_of_code(*shared), *own]})
