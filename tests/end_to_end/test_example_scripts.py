"""Each examples/*.sh for fine-tuning, with the arguments that it would pass.

The shell scripts run as they stand, but a recorder stands for Python: it writes down
its arguments. These then run in this process, which saves the start of TensorFlow; two
scripts run whole.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import tensorflow as tf

from bert_mgpu.cli import serve
from bert_mgpu.cli.doctor import environment
from bert_mgpu.config.serve import ServeConfig
from bert_mgpu.tasks.classification.builtin import BUILTIN
from tests.support import entities, questions, warm
from tests.support.marks import rarely
from tests.support.paths import ROOT
from tests.support.tiny import LINES, MRPC_HEADER, rows

EXAMPLES = ROOT / "examples"
SMALL = ("--max_seq_length=16", "--num_train_epochs=1", "--xla=off", "--report=false")
RECORDER = """#!/usr/bin/env bash
printf '%q ' "$@" >> {log}; echo >> {log}
"""
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


def write(path, line, header, count, seed):
    lines = [header] if header else []
    lines += [line(*row) for row in rows(count, seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")


@pytest.fixture
def model(tiny):
    return tiny.model / "bert_model.ckpt"


@pytest.fixture
def recorded(tmp_path, inside):
    """recorded(script, *arguments, **variables): runs what the script would run.

    Returns (exit code, stdout, stderr) of its last command; recorded.server has the
    model that it would serve.
    """
    log, recorder = tmp_path / "commands", tmp_path / "python"
    recorder.write_text(RECORDER.format(log=shlex.quote(str(log))))
    recorder.chmod(0o755)

    def run(script, *arguments, **variables):
        log.unlink(missing_ok=True)
        values = {name: str(value) for name, value in variables.items()}
        subprocess.run(
            ["bash", EXAMPLES / script, *map(str, arguments)],
            env={**os.environ, "PYTHON": str(recorder), **values},
            capture_output=True,
            timeout=60,
        )
        result = None
        for line in log.read_text().splitlines():
            program, *flags = shlex.split(line)
            if program == "-m" and flags[1] == "serve":
                assert flags[3:] == ["--port=0"]
                run.server = serve.LoadedModel(ServeConfig(output_dir=flags[2]))
                continue
            if program == "-m":
                assert flags[:3] == ["bert_mgpu", "doctor", "data"]
                assert environment.main(flags[2:]) == 0
                continue
            assert program == "run_classifier_mgpu.py"
            result = inside(flags)
            assert result[0] == 0, result[2]
        return result

    return run


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.s*h*")))
def test_the_shell_can_read_it(name):
    """And its head says how it is called."""
    done = subprocess.run(["bash", "-n", EXAMPLES / name], capture_output=True)
    assert done.returncode == 0, done.stderr
    head = (EXAMPLES / name).read_text().partition("set -euo pipefail")[0]
    assert f"examples/{name}" in head and head.startswith("#!/usr/bin/env bash\n# ")


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


def test_an_unknown_task_is_told_what_to_do():
    done = subprocess.run(
        ["bash", EXAMPLES / "builtin_task.sh", "reviews", "data", "model", "out"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "examples/own_task.sh" in done.stderr


LABELS = ("bad", "good")
IDS = itertools.count()
# The files that examples/task_json/NAME.json names.
OWN = {
    "single": (lambda y, a, b: f"{LABELS[y]}\t{a}", None),
    "multi": (
        lambda y, a, b: json.dumps(
            {"text": a, "tags": ["any", "good"][: 1 + y], "id": b}
        ),
        None,
    ),
    "regression": (
        lambda y, a, b: f"{y - 0.5}\t{a}\t{b}",
        "score\tfirst\tsecond",
    ),
    "pairs": (
        lambda y, a, b: f'{LABELS[y]},7,"{a}","{b}"',
        "fits,number,question,answer",
    ),
    "tags": (
        lambda y, a, b: json.dumps(
            {"text": a, "entities": [[0, len(a.split()[0]), LABELS[y]]]}
        ),
        None,
    ),
    "qa": (
        lambda y, a, b: json.dumps(
            {"question": b, "context": a, "id": str(next(IDS))}
            | {"answers": [{"text": a.split()[0], "answer_start": 0}] * y}
        ),
        None,
    ),
}


def own_data(tmp_path, name):
    data = tmp_path / "data"
    settings = json.loads((EXAMPLES / "task_json" / f"{name}.json").read_text())
    for seed, (split, count) in enumerate({"train": 32, "dev": 8, "test": 3}.items()):
        write(data / settings[split], *OWN[name], count, seed)
    shutil.copy(EXAMPLES / "task_json" / f"{name}.json", data / "task.json")
    return data


def test_every_form_of_task_json_is_tried():
    assert {path.stem for path in (EXAMPLES / "task_json").iterdir()} == {*OWN}


@pytest.mark.parametrize("name", [name for name in OWN if name != "single"])
def test_an_own_task(model, tmp_path, recorded, name):
    out = tmp_path / "out"
    settings = {"DATA": own_data(tmp_path, name), "MODEL": model, "OUT": out}
    _, _, output = recorded("own_task.sh", *SMALL, **settings, LENGTH=16, N_GPUS=1)
    assert "effective batch: 16 examples x 1 tower" in output
    assert len((out / "predict.txt").read_text().splitlines()) == 3
    first = json.loads((out / "predictions.jsonl").read_text().splitlines()[0])
    key, kind = {
        "pairs": ("label", str),
        "multi": ("label", list),
        "regression": ("value", float),
        "tags": ("entities", list),
        "qa": ("answer", str),
    }[name]
    assert isinstance(first[key], kind)


def test_entities(model, tmp_path, recorded):
    entities.write_task(tmp_path / "data", "ner")
    out, served = tmp_path / "out", tmp_path / "served"
    settings = {"DATA": tmp_path / "data", "MODEL": model, "OUT": out}
    recorded("tagging.sh", *SMALL, "--crf=true", **settings, SERVED=served, LENGTH=16)
    assert len((out / "predict.txt").read_text().splitlines()) == 9
    assert (out / "label_test.txt").exists() and (served / "saved_model.pb").exists()


def test_questions(model, tmp_path, recorded):
    """The SavedModel, and the server that would start, answer as the run predicts."""
    parts = {"train": questions.small(32, 1), "dev": questions.small(9, 2)}
    data = questions.write(tmp_path / "data", "squad", parts)
    out, served = tmp_path / "out", tmp_path / "served"
    settings = {"DATA": data, "MODEL": model, "OUT": out, "SERVED": served}
    small = ("--num_train_epochs=4", "--learning_rate=5e-3", "--xla=off")
    arguments = (*small, "--max_query_length=4")
    recorded("questions.sh", *arguments, **settings, LENGTH=24, STRIDE=8, PORT=0)
    assert "exact_match" in (out / "eval_results.txt").read_text()
    said = [json.loads(line)["answer"] for line in (out / "predictions.jsonl").open()]
    asked = [
        (paragraph["qas"][0]["question"], paragraph["context"])
        for paragraph in parts["dev"]["data"][0]["paragraphs"]
    ]
    text_a, text_b = map(tf.constant, zip(*asked, strict=True))
    call = tf.saved_model.load(str(served)).signatures["serving_default"]
    found = call(text_a=text_a, text_b=text_b)["answer"].numpy()
    assert [one.decode() for one in found] == said and len({*said}) > 3
    answers = recorded.server.answer([recorded.server.example(*own) for own in asked])
    assert [one["answer"] for one in answers] == said


@pytest.fixture
def settings(tiny, model, tmp_path):
    """Of a script, for the tiny workspace."""
    return {
        "DATA": tiny.data("own"),
        "TASK": "own",
        "MODEL": model,
        "OUT": tmp_path / "out",
    }


def test_several_sets_and_a_report(tiny, tmp_path, recorded, settings):
    dev = tiny.data("own") / "dev.tsv"
    sets = {"EVAL_FILES": f"may={dev},june={dev}", "LATER": f"july={dev}"}
    small = ("--xla=off", "--max_seq_length=16", "--train_batch_size=8")
    recorded("evaluate.sh", *small, **settings, **sets, EVAL_STEPS=4)
    out = tmp_path / "out"
    for name in ("", "_may", "_june", "_july"):
        assert "eval_accuracy" in (out / f"eval_results{name}.txt").read_text()
    lines = (out / "evaluations.jsonl").read_text().splitlines()
    assert len(lines) >= 3 and (out / "best" / "best.json").exists()
    assert (out / "report.html").read_text().count("<img") >= 3


def test_several_seeds(tmp_path, recorded, settings):
    recorded("seeds.sh", *SMALL, "--train_batch_size=8", **settings, SEEDS=2)
    actual = json.loads((tmp_path / "out" / "seeds.json").read_text())
    assert actual and (tmp_path / "out" / "seed-43" / "eval_results.txt").exists()


def test_export(tmp_path, recorded, settings, trained_own):
    places = {"SERVED": tmp_path / "served" / "1", "HF": tmp_path / "hf"}
    recorded("export.sh", "--xla=off", **{**settings, "OUT": trained_own}, **places)
    assert (tmp_path / "served" / "1" / "saved_model.pb").exists()
    assert (tmp_path / "hf" / "model.safetensors").exists()


@pytest.fixture
def trained_own(trained, tmp_path):
    return shutil.copytree(trained("own"), tmp_path / "trained-own")


@pytest.fixture
def real(tmp_path):
    """real(script, *arguments, settings=...): a subprocess.CompletedProcess."""
    warm.address()  # where PYTHON finds TensorFlow loaded
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {" ".join(warm.PYTHON)} 0 "$@"\n')
    shim.chmod(0o755)

    def run(script, *arguments, settings, **options):
        env = {name: str(value) for name, value in settings.items()}
        return subprocess.run(
            ["bash", EXAMPLES / script, *arguments],
            env={**os.environ, "PYTHON": str(shim), "CUDA_VISIBLE_DEVICES": "", **env},
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )

    return run


def test_a_stream_as_it_stands(tiny, settings, trained_own, real):
    lines = (tiny.data("own") / "test.tsv").read_text()
    done = real(
        "predict_stream.sh", input=lines, settings={**settings, "OUT": trained_own}
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in answers] == [*range(1, 12)]
    assert {one["label"] for one in answers} <= {"no", "yes"}


def test_an_own_task_as_it_stands(tmp_path, settings, real):
    settings |= {"DATA": own_data(tmp_path, "single"), "TASK": "reviews", "LENGTH": 16}
    done = real("own_task.sh", *SMALL, settings=settings)
    assert done.returncode == 0, done.stderr
    assert "\nrows" in done.stdout  # the doctor's table
    assert done.stdout.count("predictions.jsonl <==") == 1
    records = [json.loads(line) for line in done.stdout.splitlines()[-3:]]
    assert {one["label"] for one in records} <= {*LABELS} and len(records) == 3
