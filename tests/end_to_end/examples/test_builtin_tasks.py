"""builtin_task.sh with a small file of each built-in task."""

import json
import re
import subprocess

import pytest

from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.span_qa import files as span_qa
from bert_mgpu.tasks.tagging import files as tagging
from tests.support.example_files import SMALL, write
from tests.support.marks import rarely
from tests.support.paths import EXAMPLES
from tests.support.tiny import LINES, MRPC_HEADER

ID8 = "\t".join("01234567")
NLI = ("contradiction", "entailment")
# A line of (label, text, second text) in the format of the task, and its header.
WOS = lambda y, a, b: f"{y}\t{a},{b}"  # noqa: E731
AUDIT = lambda y, a, b: f"1\tx\t{y}\t{a}"  # noqa: E731
FORMATS = {
    "cola": (LINES["cola"], None),
    "mnli": (lambda y, a, b: f"{ID8}\t{a}\t{b}\t{NLI[y]}", "header"),
    "mrpc": (LINES["mrpc"], MRPC_HEADER),
    "xnli": (lambda y, a, b: f"zh\t{NLI[y]}\t2\t3\t4\t5\t{a}\t{b}", "header"),
    "sentiment": (
        lambda y, a, b: json.dumps({"comment": a, "items": [{"sentiment": 2 * y}]}),
        None,
    ),
    "wos5736": (WOS, None),
    "wos46985": (WOS, None),
    "toutiao": (lambda y, a, b: f"{('news_car', 'stock')[y]}\t{a}", None),
    "title_audit": (AUDIT, None),
    "abuse": (AUDIT, None),
    "ad": (lambda y, a, b: f"{y}\t0\t{b}\t{a}", None),
    "high_level": (LINES["high_level"], None),
    "doc_lv1": (lambda y, a, b: f"{('mil', 'game')[y]}\t{a}", None),
}
# Files that are not like the others of their task.
OTHERS = {
    ("cola", "test"): (lambda y, a, b: f"7\t{a}", "index\tsentence"),
    ("xnli", "train"): (lambda y, a, b: f"{a}\t{b}\t{NLI[y]}", "header"),
}


# A pair, JSON, a file that is not like the others of its task, two towers.
OFTEN = ("cola", "xnli", "sentiment", "toutiao")


@pytest.mark.parametrize(
    "task", [*OFTEN, *rarely(*(task for task in BUILTIN if task not in OFTEN))]
)
def test_a_built_in_task(model, tmp_path, recorded, task):
    files, data = BUILTIN[task], tmp_path / "data"
    for seed, split in enumerate(("train", "dev", "test")):
        if name := getattr(files, split):
            line, header = OTHERS.get((task, split), FORMATS[task])
            write(data / name, line, header, 12 if split == "train" else 5, seed)
    out = tmp_path / "out"
    arguments = (task, data, model, out)
    towers = 2 if task == "toutiao" else 1
    small = (*SMALL, "--train_batch_size=6")
    _, _, output = recorded("builtin_task.sh", *arguments, *small, N_GPUS=towers)
    assert f"= {6 * towers} per step" in output
    assert len((out / "predict.txt").read_text().splitlines()) == 5
    assert (out / "eval_results.txt").read_text().startswith("eval_accuracy = ")


@pytest.mark.parametrize("task", BUILTIN)
def test_the_files_of_a_built_in_task_are_listed(task):
    files, text = BUILTIN[task], (EXAMPLES / "builtin_task.sh").read_text()
    (row,) = [one for one in text.splitlines() if re.search(rf"\b{task}\b.*\) #", one)]
    for name in filter(None, (files.train, files.dev, files.test)):
        assert f" {name}" in row  # whoever looks for the task finds its files


@pytest.mark.parametrize(
    ("task", "script"),
    [
        ("reviews", "own_task.sh"),
        *((name, "tagging.sh") for name in tagging.BUILTIN),
        *((name, "questions.sh") for name in span_qa.BUILTIN),
    ],
)
def test_another_task_is_told_what_to_do(task, script):
    done = subprocess.run(
        ["bash", EXAMPLES / "builtin_task.sh", task, "data", "model", "out"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and f"examples/{script}" in done.stderr
