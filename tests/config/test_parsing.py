"""The flags of Google's and bert-ad's scripts, help, and what absl does not say."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.config import base, finetuning, parsing, pretraining
from bert_mgpu.config.other_names import OTHER_NAMES
from bert_mgpu.core.errors import UserError
from tests.support.paths import ROOT
from tests.support.processes import SCRIPT

FLAGS = base.fields(finetuning.FinetuneConfig)
# Flags and defaults of google-research/bert's run_classifier.py at eedf571; those
# of bert-ad's run_classifier_mgpu.py are the same, but for the two below.
GOOGLE = {
    "data_dir": None,
    "bert_config_file": None,
    "task_name": None,
    "vocab_file": None,
    "output_dir": None,
    "init_checkpoint": None,
    "do_lower_case": True,
    "max_seq_length": 128,
    "do_train": False,
    "do_eval": False,
    "do_predict": False,
    "train_batch_size": 32,
    "eval_batch_size": 8,
    "learning_rate": 5e-5,
    "num_train_epochs": 3.0,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 1000,
}
GOOGLE_PREDICT_BATCH_SIZE = 8  # bert-ad has none and takes eval_batch_size
BERT_AD_N_GPUS = 1
# The same of run_pretraining.py; bert-ad's has --n_gpus beside them.
GOOGLE_PRETRAINING = {
    "bert_config_file": None,
    "input_file": None,
    "output_dir": None,
    "init_checkpoint": None,
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "do_train": False,
    "do_eval": False,
    "train_batch_size": 32,
    "eval_batch_size": 8,
    "learning_rate": 5e-5,
    "num_train_steps": 100000,
    "num_warmup_steps": 10000,
    "save_checkpoints_steps": 1000,
    "max_eval_steps": 100,
}
TPU = {
    "use_tpu": "false",
    "use_one_hot_embeddings": "true",
    "tpu_name": "x",
    "tpu_zone": "x",
    "gcp_project": "x",
    "master": "x",
    "num_tpu_cores": "8",
    "iterations_per_loop": "1000",
}


def parse(*args):
    args = ["run_classifier_mgpu.py", *args]
    return parsing.parse(args, "usage", finetuning.FinetuneConfig)


def help_of(*options, flag="--help", **settings):
    return subprocess.run(
        [sys.executable, *options, SCRIPT, flag],
        capture_output=True,
        text=True,
        timeout=60,
        **settings,
    )


def test_old_flags_keep_their_defaults():
    settings, notes = parse()
    assert {name: getattr(settings, name) for name in GOOGLE} == GOOGLE
    assert settings.predict_batch_size is None
    assert settings.prediction_batch == GOOGLE_PREDICT_BATCH_SIZE
    assert settings.n_gpus == BERT_AD_N_GPUS
    assert notes == [] and settings.given == frozenset()


def test_old_flags_of_pretraining_keep_their_defaults():
    wanted = {**GOOGLE_PRETRAINING, "n_gpus": BERT_AD_N_GPUS}
    settings, notes = parsing.parse(["script.py"], "", pretraining.PretrainConfig)
    assert {name: getattr(settings, name) for name in wanted} == wanted
    assert notes == [] and settings.given == frozenset()


@pytest.mark.parametrize("name", TPU)
def test_pretraining_accepts_tpu_flags(name):
    args = ["script.py", f"--{name}={TPU[name]}"]
    _, notes = parsing.parse(args, "usage", pretraining.PretrainConfig)
    assert len(notes) == (name != "use_tpu")


def test_predict_batch_size_follows_eval_batch_size():
    assert parse("--eval_batch_size=3")[0].prediction_batch == 3
    both = parse("--eval_batch_size=3", "--predict_batch_size=5")[0]
    assert both.prediction_batch == 5


@pytest.mark.parametrize("name", TPU)
def test_tpu_flags_are_accepted_with_one_note(name):
    settings, notes = parse(f"--{name}={TPU[name]}", "--do_train=true")
    assert settings.do_train
    expected = f"--{name}: for TPUs only, without effect here"
    assert notes == ([] if name == "use_tpu" else [expected])


def test_all_tpu_flags_share_one_note():
    _, notes = parse(*(f"--{name}={value}" for name, value in TPU.items()))
    assert len(notes) == 1
    assert all(f"--{name}" in notes[0] for name in TPU if name != "use_tpu")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--do_train"], True),
        (["--do_train=True"], True),
        (["--do_train=1"], True),
        (["--do_train=false"], False),
        (["--nodo_train"], False),
        (["--do_train=true", "--do_train=false"], False),
        (["-do_train"], True),
        (["--do_train", "true"], True),
        (["--do_train", "False", "--n_gpus", "2"], False),
    ],
)
def test_booleans_are_absls(args, expected):
    assert parse(*args)[0].do_train is expected


def test_an_empty_value_is_no_value():
    settings, _ = parse("--init_checkpoint=", "--output_dir", "out")
    assert settings.init_checkpoint is None
    assert settings.output_dir == "out"
    assert settings.given == {"init_checkpoint", "output_dir"}


def test_a_value_may_begin_with_one_dash_that_is_no_flag():
    settings = parse("--predict_text", "-5 degrees", "-do_train", "true")[0]
    assert settings.predict_text == "-5 degrees" and settings.do_train


@pytest.mark.parametrize("text", ["-- he said", "--do_train", "-", "--"])
def test_a_value_behind_an_equals_sign_may_begin_with_dashes(text):
    args = [f"--predict_text={text}", "--output_dir=out"]
    assert parse(*args)[0].predict_text == text
    assert parse(f"-predict_text={text}")[0].predict_text == text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--n_gpus"], "Missing value for flag --n_gpus"),
        (["--n_gpus="], "--n_gpus=: pass a whole number"),
        (["--n_gpus", "--do_train"], "--n_gpus=--do_train: pass a whole number"),
        (["--output_dir", "--do_train"], "--output_dir has no value"),
        (["-output_dir", "--do_train"], "--output_dir has no value"),
        (["--output_dir", "--do_train", "true"], "--output_dir has no value"),
        (["--output_dir", "-do_train=true"], "--output_dir has no value"),
        (["--output_dir", "-nodo_train"], "--output_dir has no value"),
        (["--predict_text", "-- he"], "follows: write --predict_text=VALUE"),
        (["--do_train", "maybe"], "'maybe' is not a flag: write --NAME=VALUE"),
        (["--n_gpus=2", "true"], "'true' is not a flag"),
        (["--model_name_or_path=m"], "here it is called --init_checkpoint"),
        (["--fp16"], "here it is called --precision=float16"),
        (["train"], "'train' is not a flag"),
        (["--xla=yes"], "--xla=yes: pass one of auto, on, off"),
        (["--num_tpu_cores=many"], "--num_tpu_cores=many: pass a whole number"),
        (["--use_tpu"], "--use_tpu=true: "),
        (["--nodo_train=true"], "--nodo_train takes no value: pass --do_train=true or"),
        (["-nodo_eval=\n"], "--nodo_eval takes no value: pass --do_eval=true or"),
        (["--n_gpu=2"], "did you mean --n_gpus?"),
        (["--predict_batchsize=2"], "did you mean --predict_batch_size"),
        (["--learning_rate=1e-400x"], "--learning_rate=1e-400x: pass a number"),
    ],
    ids=str,
)
def test_bad_command_lines_are_refused(args, message):
    with pytest.raises(UserError) as caught:
        parse(*args)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_flag_has_help_and_a_valid_default():
    for field in FLAGS:
        assert len(field.metadata["help"]) > 10, field.name
        choices = field.metadata["choices"]
        assert not choices or field.default in (None, *choices), field.name
        minimum = field.metadata["minimum"]
        assert None in (minimum, field.default) or field.default >= minimum, field.name


def test_names_of_transformers_are_answered_with_ours():
    names = {field.name: field for field in FLAGS}
    assert len(OTHER_NAMES) >= 20 and not OTHER_NAMES.keys() & names.keys()
    for ours in OTHER_NAMES.values():
        name, _, value = ours.partition("=")
        assert not value or value in names[name].metadata["choices"]


def test_help_begins_with_what_everyone_needs():
    shown = help_of()
    assert shown.returncode == 0 and shown.stderr == ""
    listed = re.findall(r"^  --(\w+)=", shown.stdout, re.MULTILINE)
    assert {*listed} == {*finetuning.FinetuneConfig.first} and len(listed) <= 25
    rest = len(FLAGS) - len(listed)
    assert shown.stdout.endswith(f"\n--help=all shows {rest} more flags.\n")
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_help_lists_every_flag():
    shown = help_of(flag="--help=all")
    assert shown.returncode == 0 and shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    places = [shown.stdout.find(f"\n  --{f.name}=") for f in FLAGS]
    assert -1 not in places and places == sorted(places)
    assert not [name for name in TPU if f"--{name}" in shown.stdout]
    one_line = " ".join(shown.stdout.split())
    assert "python run_classifier_mgpu.py --task_name=mrpc" in one_line
    for part in (
        "--max_seq_length=N tokens per row",
        "--do_lower_case=true|false lower-case",
        "cut into windows [128]",
        "says which it is [true]",
        "[5e-05]",
        "--truncation=head|tail|head_tail",
    ):
        assert part in one_line


def test_help_loads_little_and_no_tensorflow():
    """Its time is that of what it imports."""
    shown = help_of("-X", "importtime")
    assert shown.returncode == 0
    assert "absl.flags" in shown.stderr and "tensorflow" not in shown.stderr
    assert len(shown.stderr.splitlines()) < 420


def test_parsing_loads_no_tensorflow():
    code = "import sys; from bert_mgpu.cli import run_classifier as c, session;"
    code += " session.parsing.parse(['x', '--n_gpus=2'], '', c.FinetuneConfig)"
    code += "; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_reader_that_leaves_early():
    """--help | head: the other end of the pipe is closed before we write."""
    reader, writer = os.pipe()
    os.close(reader)
    shown = subprocess.Popen(
        [sys.executable, SCRIPT, "--help"], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    _, err = shown.communicate(timeout=60)
    assert (shown.returncode, err) == (0, b"")


def test_numbers_of_numpy_in_a_command_line():
    (text,) = parsing.arguments({"threshold": {"a": np.float32(0.25), "b": 1}})
    assert text == '--threshold={"a": 0.25, "b": 1}'
