"""run_squad_mgpu.py: google-research/bert's flags, defaults and files."""

import dataclasses
import json
import pathlib

import pytest

from bert_mgpu.checkpoints import google_read, run_folder
from bert_mgpu.cli import run_squad
from bert_mgpu.config import base, parsing
from bert_mgpu.config.squad import SquadConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.model import params
from bert_mgpu.model.config import BertConfig
from tests.support import questions
from tests.support.tiny import edit_config

# Those of run_squad.py but for its TPUs; None is not given.
DEFAULTS = {
    "bert_config_file": None,
    "vocab_file": None,
    "output_dir": None,
    "train_file": None,
    "predict_file": None,
    "init_checkpoint": None,
    "do_lower_case": True,
    "max_seq_length": 384,
    "doc_stride": 128,
    "max_query_length": 64,
    "do_train": False,
    "do_predict": False,
    "train_batch_size": 32,
    "learning_rate": 5e-5,
    "num_train_epochs": 3.0,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 1000,
    "n_best_size": 20,
    "max_answer_length": 30,
    "verbose_logging": False,
    "null_score_diff_threshold": 0.0,
}


def parsed(*flags):
    return parsing.parse(["run_squad_mgpu.py", *flags], "", SquadConfig)[0]


def test_the_flags_have_googles_defaults():
    config = parsed()
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert config.prediction_batch == 8 and not config.version_2_with_negative
    # Those of TPUs and of the Estimator are taken, and do nothing.
    parsed("--use_tpu=False", "--iterations_per_loop=1000", "--num_tpu_cores=8")


def test_the_help_gives_each_flag_one_default():
    twice = [
        field.name
        for field in base.fields(SquadConfig)
        if field.default is not None and field.metadata["help"].endswith("]")
    ]
    assert not twice


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        (["--do_train=true"], "--train_file"),
        (["--do_predict=true"], "--predict_file"),
        (["--do_eval=true"], "--dev_file"),
    ],
)
def test_files_that_are_needed(tmp_path, flags, missing):
    with pytest.raises(UserError, match=f"{missing}.*missing|{missing} is missing"):
        run_squad.check(parsed(f"--output_dir={tmp_path}", *flags))


def test_the_file_to_predict_is_evaluated_wherever_the_data_lies(monkeypatch, tmp_path):
    """Its name counts from here, that of a file to evaluate from --data_dir."""
    monkeypatch.chdir(tmp_path)
    asked = parsed("--data_dir=squad", "--predict_file=squad/dev.json")
    assert run_squad.with_dev_file(asked).dev_file == str(tmp_path / "squad/dev.json")
    asked = parsed("--predict_file=squad/dev.json")
    assert run_squad.with_dev_file(asked).dev_file == "squad/dev.json"


def test_a_file_that_is_not_to_be_predicted_is_passed_over(tmp_path):
    flags = ["--do_train=True", "--train_file=t.json", "--predict_file=p.json"]
    asked = parsed(f"--output_dir={tmp_path}", *flags, "--do_predict=False")
    run_squad.check(asked)
    taken = run_squad.as_google(asked)
    assert taken.predict_file is None and "predict_file" not in taken.given
    evaluated = parsed(f"--output_dir={tmp_path}", *flags, "--do_eval=True")
    run_squad.check(evaluated)
    assert run_squad.as_google(evaluated).dev_file == "p.json"
    predicted = parsed(*flags, "--do_predict=True")
    assert run_squad.as_google(predicted).predict_file == "p.json"


def test_of_several_files_none_is_evaluated(tmp_path):
    given = f"--output_dir={tmp_path}", "--predict_file=a.json,b.json"
    asked = parsed(*given, "--do_predict=true", "--do_eval=true")
    with pytest.raises(UserError, match="--dev_file is missing"):
        run_squad.check(asked)
    asked = parsed(*given, "--do_predict=true")
    assert run_squad.as_google(asked).dev_file is None


@pytest.mark.parametrize("name", ["squad2", "own"])
def test_a_model_keeps_that_questions_may_have_no_answer(name):
    """Whatever its task is called; the script's own name is squad."""
    values = {"name": name, "version_2_with_negative": True}
    trained = run_folder.TrainedTask(pathlib.Path("run.json"), values, {})
    own = dataclasses.replace(parsed("--do_predict=true"), trained_task=trained)
    assert run_squad.as_google(own).version_2_with_negative is True
    for flag in ("--version_2_with_negative=false", "--task_name=squad"):
        own = dataclasses.replace(parsed(flag), trained_task=trained)
        assert not run_squad.as_google(own).version_2_with_negative


LISTS = ("nbest_predictions.json", "null_odds.json")
THRESHOLD = -1.5
# Google's README, letter by letter but for the folders, and the TPU of version 2.0.
_COMMAND = """
--vocab_file=MODEL/vocab.txt --bert_config_file=MODEL/bert_config.json
--init_checkpoint=MODEL/bert_model.ckpt --do_train=True
--train_file=DATA/train-v{}.json --do_predict=True --predict_file=DATA/dev-v{}.json
--train_batch_size={} --learning_rate=3e-5 --num_train_epochs=2.0
--max_seq_length=384 --doc_stride=128 --output_dir=OUT/squad_base/
"""
SQUAD_1 = _COMMAND.format(1.1, 1.1, 12)
SQUAD_2 = _COMMAND.format("2.0", "2.0", 24) + "--version_2_with_negative=True"
SQUAD_2_THRESHOLD = SQUAD_2.replace("do_train=True", "do_train=False").replace(
    "--train_batch", f"--null_score_diff_threshold={THRESHOLD} --train_batch"
)


@pytest.mark.parametrize(
    ("commands", "batch"), [([SQUAD_1], 12), ([SQUAD_2, SQUAD_2_THRESHOLD], 24)]
)
def test_googles_commands_letter_by_letter(work, started, tmp_path, commands, batch):
    edit_config(work, max_position_embeddings=384)
    config = BertConfig.from_json_file(work.model / "bert_config.json")
    weights = params.initialize(params.bert_specs(config), 0.3, seed=1)
    google_read.write(work.model / "bert_model.ckpt", weights)
    version = "1.1" if batch == 12 else "2.0"
    for part, seed in (("train", 1), ("dev", 2)):
        value = questions.small(24, seed, 0.4 * (batch == 24))
        (tmp_path / f"{part}-v{version}.json").write_text(json.dumps(value))
    out = tmp_path / "squad_base"
    for number, command in enumerate(commands):
        for path in out.glob("*.json"):
            if path.name in ("predictions.json", *LISTS):
                path.unlink()
        for name, folder in (
            ("MODEL", work.model),
            ("DATA", tmp_path),
            ("OUT", tmp_path),
        ):
            command = command.replace(f"={name}/", f"={folder}/")
        code, _, err = started(run_squad.main, [*command.split(), "--xla=off"])
        assert code == 0, err
        answers = json.loads((out / "predictions.json").read_text())
        assert len(answers) == 24
        assert (out / "nbest_predictions.json").exists()
        if batch == 24:
            odds = json.loads((out / "null_odds.json").read_text())
            least = THRESHOLD if number else 0.0
            assert all((odds[name] > least) == (not answers[name]) for name in odds)
        if number == 0:
            assert f"training  steps 1 to {48 // batch}," in err
            assert (out / f"model.ckpt-{48 // batch}.index").exists()


@pytest.mark.parametrize("negative", [False, True])
def test_answers_are_learnt_and_predicted_with_a_threshold(
    tiny, started, tmp_path, negative
):
    """On shorter rows a model learns; a second command predicts with a threshold."""
    version = "v2.0" if negative else "v1.1"
    for part, seed in (("train", 1), ("dev", 2)):
        value = questions.small(48, seed, 0.4 * negative)
        (tmp_path / f"{part}-{version}.json").write_text(json.dumps(value))
    out = tmp_path / "out"
    flags = {
        "vocab_file": tiny.model / "vocab.txt",
        "bert_config_file": tiny.model / "bert_config.json",
        "init_checkpoint": tiny.model / "bert_model.ckpt",
        "do_train": True,
        "train_file": tmp_path / f"train-{version}.json",
        "do_predict": True,
        "predict_file": tmp_path / f"dev-{version}.json",
        "train_batch_size": 12,
        "learning_rate": 3e-3,
        "num_train_epochs": 4.0,
        "max_seq_length": 40,
        "doc_stride": 16,
        "output_dir": out,
        "use_tpu": False,
    }
    flags |= {"version_2_with_negative": True} if negative else {}

    def run(**changed):
        given = [f"--{name}={value}" for name, value in {**flags, **changed}.items()]
        return started(run_squad.main, [*given, "--xla=off", "--report=false"])

    code, _, err = run(do_eval=True)
    assert code == 0, err
    answers = json.loads((out / "predictions.json").read_text())
    assert len(answers) == 48 and (out / "nbest_predictions.json").exists()
    scores = (out / "eval_results.txt").read_text()
    assert ("best_f1_thresh" in scores) == negative == (out / "null_odds.json").exists()
    if negative:
        some = sum(not text for text in answers.values())
        code, _, err = run(do_train=False, null_score_diff_threshold=-100.0)
        assert code == 0, err
        answers = json.loads((out / "predictions.json").read_text())
        assert not any(answers.values()) and 0 < some < 48
    else:
        code, _, err = run(train_file=tmp_path / "absent.json", output_dir=tmp_path)
        assert code == 2 and "absent.json: no such file" in err
        unused = {"do_predict": False, "predict_file": tmp_path / "absent.json"}
        code, _, err = run(**unused, do_train=False, export_hf=tmp_path / "hf")
        assert code == 0 and "--predict_file: not read: --do_predict is" in err, err
