"""What all scripts have in common; those of evaluating, seeds, exports and streams."""

import json
import os
import subprocess

import pytest

from tests.support.example_files import SMALL
from tests.support.paths import EXAMPLES


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.s*h*")))
def test_the_shell_can_read_it(name):
    """And its head says how it is called."""
    done = subprocess.run(["bash", "-n", EXAMPLES / name], capture_output=True)
    assert done.returncode == 0, done.stderr
    head = (EXAMPLES / name).read_text().partition("set -euo pipefail")[0]
    assert f"examples/{name}" in head and head.startswith("#!/usr/bin/env bash\n# ")


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
    assert (out / "report.html").read_text().count("<img") == 2


def test_scores_of_any_type_are_shown(tmp_path, settings):
    """A run that writes nothing stands for Python."""
    settings["OUT"].mkdir()
    (settings["OUT"] / "eval_results.txt").write_text("eval_loss = 1.5\nmae = 1.0\n")
    values = {**settings, "PYTHON": "true", "EVAL_FILES": "may=may.tsv"}
    done = subprocess.run(
        ["bash", EXAMPLES / "evaluate.sh"],
        env={**os.environ, **{name: str(value) for name, value in values.items()}},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "mae = 1.0" in done.stdout and "report.html" in done.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tagging.sh", {"--do_lower_case=false"}),
        ("questions.sh", {"--do_lower_case=false"}),
        ("edit_text.sh", {"LOWER=false"}),
        ("rewrite_ads.sh", {"LOWER=false"}),
    ],
)
def test_a_cased_model_is_cased_in_every_step(tmp_path, name, told):
    """Each command that reads texts is told; a list of commands stands for Python."""
    data, listed = tmp_path / "data", tmp_path / "commands"
    (tmp_path / "out" / "data").mkdir(parents=True)
    data.mkdir()
    for file in ("train.tsv", "task.json", "new.txt", "../out/data/bank.tsv"):
        (data / file).touch()
    for file in ("ranker/rewrites.jsonl", "trained/predict.txt"):
        (tmp_path / "out" / file).parent.mkdir()
        (tmp_path / "out" / file).touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {listed}\n')
    python.chmod(0o755)
    settings = {"DATA": data, "OUT": tmp_path / "out", "PYTHON": python}
    settings |= {"ADS": data / "train.tsv", "NEW": data / "new.txt"}
    variables = dict(one.split("=") for one in told if one[0] != "-")
    environ = {**os.environ, **{k: str(v) for k, v in settings.items()}, **variables}
    flags = [one for one in told if one[0] == "-"]
    subprocess.run(["bash", EXAMPLES / name, *flags], env=environ, capture_output=True)
    commands = listed.read_text().splitlines()
    reads = ("doctor data", "create_pretraining_data.py", "do_train=true")
    # Records, and a run that others start from, say how they were made.
    known = ("run_pretraining_mgpu.py", "/head --output_dir")
    asked = [c for c in commands if any(r in c for r in reads)]
    asked = [c for c in asked if not any(k in c for k in known)]
    assert len(asked) > 1
    assert all("--do_lower_case=false" in command for command in asked), asked


def test_several_seeds(tmp_path, recorded, settings):
    recorded("seeds.sh", *SMALL, "--train_batch_size=8", **settings, SEEDS=2)
    actual = json.loads((tmp_path / "out" / "seeds.json").read_text())
    assert actual and (tmp_path / "out" / "seed-43" / "eval_results.txt").exists()


def test_export(tmp_path, recorded, settings, trained_own):
    places = {"SERVED": tmp_path / "served" / "1", "HF": tmp_path / "hf"}
    recorded("export.sh", "--xla=off", **{**settings, "OUT": trained_own}, **places)
    assert (tmp_path / "served" / "1" / "saved_model.pb").exists()
    assert (tmp_path / "hf" / "model.safetensors").exists()


def test_a_stream_as_it_stands(tiny, settings, trained_own, real):
    lines = (tiny.data("own") / "test.tsv").read_text()
    done = real(
        "predict_stream.sh", input=lines, settings={**settings, "OUT": trained_own}
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in answers] == [*range(1, 12)]
    assert {one["label"] for one in answers} <= {"no", "yes"}
