"""run_pretraining_mgpu.py: what it refuses, and what it takes from other scripts."""

import json
import shutil

import numpy as np
import pytest

from bert_mgpu.data import tfrecord
from tests.support.pretraining import CLS, SEP, records
from tests.support.runs import assert_refused


@pytest.mark.parametrize(
    ("changed", "fragments"),
    [
        ({"input_file": None}, ("--input_file is missing",)),
        ({"input_file": "/no/such"}, ("--input_file=/no/such", "pass the files")),
        ({"max_seq_length": 8}, ("a.tfrecord at byte", "--max_seq_length=16")),
        ({"max_predictions_per_seq": 9}, ("--max_predictions_per_seq=3",)),
        ({"dynamic_masking": True}, ("it holds masks", "--dynamic_masking")),
        ({"masking": "span"}, ("--masking does nothing", "--dynamic_masking=true")),
        ({"masked_lm_prob": 0.2}, ("--masked_lm_prob does nothing",)),
        (
            {"dynamic_masking": True, "masking": "infill", "masked_lm_prob": 0.3},
            ("--masked_lm_prob: --masking=infill masks a span",),
        ),
        ({"do_train": None}, ("nothing to do",)),
        ({"predict_file": "x"}, ("pass --do_predict=true",)),
        ({"do_predict": True}, ("pass --predict_file",)),
        ({"do_predict": True, "predict_file": "/no/such"}, ("/no/such",)),
        ({"eval_input_file": "x"}, ("pass --do_eval=true",)),
        ({"input_file": None, "do_train": None, "do_eval": True}, ("--input_file",)),
        ({"num_train_step": 3}, ("did you mean --num_train_steps",)),
    ],
    ids=str,
)
def test_mistakes_are_one_line(tmp_path, flags, pretrain, changed, fragments):
    assert_refused(pretrain(flags(tmp_path / "out", **changed)), *fragments)


def test_googles_script_names_no_vocabulary(tmp_path, tiny, data, flags, pretrain):
    """It is taken from where the records were made, else the run goes without."""
    folder = tmp_path / "records"
    shutil.copytree(data / "both", folder)
    settings = {"input_file": folder, "vocab_file": None, "init_checkpoint": None}
    code, _, err = pretrain(flags(tmp_path / "out", **settings))
    assert code == 0 and "no --vocab_file" in err, err
    assert not (tmp_path / "out" / "vocab.txt").exists()
    vocabulary = tiny.model / "vocab.txt"
    made = {"vocab_file": str(vocabulary), "do_lower_case": False}
    (folder / ".a.tfrecord.json").write_text(json.dumps({"settings": made}))
    settings["do_lower_case"] = False
    code, _, err = pretrain(flags(tmp_path / "other", **settings))
    assert code == 0, err
    copied = (tmp_path / "other" / "vocab.txt").read_bytes()
    assert copied == vocabulary.read_bytes()
    settings["do_lower_case"] = True
    result = pretrain(flags(tmp_path / "another", **settings))
    assert_refused(result, "--do_lower_case=true", "is cased")


def test_googles_script_on_a_cased_model(tmp_path, tiny, flags, pretrain):
    """It has neither --vocab_file nor --do_lower_case, and reads no text."""
    folder = tmp_path / "cased_L-2_H-32_A-2"
    shutil.copytree(tiny.model, folder)
    (folder / "vocab.txt").unlink()
    start = {"vocab_file": None, "init_checkpoint": folder / "bert_model.ckpt"}
    code, _, err = pretrain(flags(tmp_path / "out", **start))
    assert code == 0, err
    kept = json.loads((tmp_path / "out" / "run.json").read_text())["flags"]
    assert "do_lower_case" not in kept


def test_records_of_another_casing(tmp_path, tiny, data, flags, pretrain):
    folder = tmp_path / "cased_L-2_H-32_A-2"
    shutil.copytree(tiny.model, folder)
    records = tmp_path / "records"
    shutil.copytree(data / "both", records)
    made = {"vocab_file": str(folder / "vocab.txt"), "do_lower_case": True}
    (records / ".a.tfrecord.json").write_text(json.dumps({"settings": made}))
    start = {"vocab_file": None, "init_checkpoint": folder / "bert_model.ckpt"}
    result = pretrain(flags(tmp_path / "out", input_file=records, **start))
    assert_refused(result, "made with --do_lower_case=true, but", "is cased")


def test_records_that_were_lost_between_two_are_missed(tmp_path, data, flags, pretrain):
    """A file that ends with a whole record looks whole."""
    records, out = tmp_path / "records", tmp_path / "out"
    shutil.copytree(data / "both", records)
    (records / ".a.tfrecord.json").write_text(json.dumps({"rows": 26}))
    args = flags(out, input_file=records)
    result = pretrain(args)
    assert_refused(result, "a.tfrecord: 25 records, but .a.tfrecord.json", "says 26")
    code, _, err = pretrain([*args, "--skip_bad_records=true"])
    assert code == 0 and "25 of the 26 that were written" in err
    (records / ".a.tfrecord.json").write_text(json.dumps({"rows": 24}))
    assert_refused(pretrain(flags(tmp_path / "b", input_file=records)), "says 24")


def test_a_warm_up_that_does_not_end_and_few_masks_are_told(tmp_path, flags, pretrain):
    few = {"num_warmup_steps": 12, "masked_lm_prob": 0.5}
    code, _, err = pretrain(flags(tmp_path / "out", "unmasked", **few))
    assert code == 0
    assert "WARNING  the warm-up never ends: lower --num_warmup_steps" in err
    assert "rows beyond 6 tokens get fewer masks" in err
    assert ": pass --max_predictions_per_seq=8" in err


def test_masks_must_fit_the_records(tmp_path, data, flags, pretrain):
    result = pretrain(flags(tmp_path / "out", "single", masking="infill"))
    assert_refused(result, "rows without a second text", "--masking")
    folder = tmp_path / "records"
    shutil.copytree(data / "unmasked", folder)
    made = {"settings": {"objective": "infill"}}
    (folder / ".a.tfrecord.json").write_text(json.dumps(made))
    result = pretrain(flags(tmp_path / "out", input_file=folder, dynamic_masking=True))
    assert_refused(result, "made with --objective=infill", "pass --masking=infill")
    code, _, err = pretrain(flags(tmp_path / "out", "unmasked", masking="infill"))
    assert code == 0, err


def test_evaluated_records_without_one_mask(tmp_path, data, flags, pretrain):
    """Said before the training: the masks stand behind the rows that are read."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "a.tfrecord").write_bytes(b"".join(records(most=0, rows=16)))
    shutil.copy(data / "both" / "b.tfrecord", folder)
    few = {"do_eval": True, "max_eval_steps": 1, "eval_input_file": folder}
    result = pretrain(flags(tmp_path / "out", **few))
    assert_refused(
        result,
        "a.tfrecord",
        "b.tfrecord",
        "no token is masked in the first",
        "16 rows",
        "raise --max_eval_steps",
        "--eval_input_file",
    )
    assert not list((tmp_path / "out").glob("model.ckpt*"))
    code, _, err = pretrain(flags(tmp_path / "out", **{**few, "max_eval_steps": 2}))
    assert code == 0, err


def test_evaluated_records_in_which_nothing_can_be_masked(tmp_path, flags, pretrain):
    empty = tmp_path / "empty.tfrecord"
    features = {"input_ids": np.array([CLS, SEP]), "segment_ids": np.array([0, 0])}
    empty.write_bytes(tfrecord.frame(tfrecord.encode(features)) * 3)
    args = flags(tmp_path / "out", "single", do_eval=True, eval_input_file=empty)
    result = pretrain(args)
    assert_refused(
        result,
        "empty.tfrecord",
        "--masking=token masks no token of the 3 rows",
        "pass records of longer texts as --eval_input_file",
    )
    assert (tmp_path / "out" / "model.ckpt-12.index").exists()  # it was trained


@pytest.fixture
def trained(tmp_path, tmp_path_factory, flags, pretrain):
    """A copy of the output_dir of a training, which is done once."""
    made = tmp_path_factory.getbasetemp() / "trained"
    if not made.exists():
        code, _, err = pretrain(flags(made))
        assert code == 0, err
    return shutil.copytree(made, tmp_path / "out")


def test_a_trained_model_is_exported_whole(tmp_path, flags, pretrain, trained):
    """With its head for next sentences, and without any records."""
    folder = tmp_path / "hf"
    code, _, err = pretrain([f"--output_dir={trained}", f"--export_hf={folder}"])
    assert code == 0, err
    architectures = json.loads((folder / "config.json").read_text())["architectures"]
    assert architectures == ["BertForPreTraining"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    result = pretrain(flags(tmp_path / "new", export_hf=tmp_path / "other"))
    assert_refused(result, "other")
    assert not list((tmp_path / "new").glob("model.ckpt*"))


def test_records_of_another_vocabulary(tmp_path, data, flags, pretrain):
    folder = tmp_path / "records"
    shutil.copytree(data / "both", folder)
    (folder / ".b.tfrecord.json").write_text(json.dumps({"vocabulary": "0" * 64}))
    result = pretrain(flags(tmp_path / "out", input_file=folder))
    assert_refused(result, "b.tfrecord: made with another vocabulary", "--vocab_file")


def test_two_kinds_of_records_do_not_mix(tmp_path, data, flags, pretrain):
    both = f"{data / 'both'},{data / 'words'}"
    result = pretrain(flags(tmp_path / "out", input_file=both))
    assert_refused(result, "has next_sentence_labels", "without")
    (tmp_path / "empty").mkdir()
    result = pretrain(flags(tmp_path / "out", input_file=tmp_path / "empty"))
    assert_refused(result, "no file of the folder ends in .tfrecord")


def test_other_settings_do_not_resume(tmp_path, data, flags, pretrain, trained):
    for changed in ({"num_warmup_steps": 3}, {"input_file": data / "both/a.tfrecord"}):
        result = pretrain(flags(trained, **changed))
        assert_refused(result, "holds a run with other settings", next(iter(changed)))
    code, _, err = pretrain(flags(trained, num_train_steps=14))
    assert code == 0 and "training  steps 13 to 14" in err
    code, _, err = pretrain(flags(tmp_path / "further", init_checkpoint=trained))
    assert code == 0 and "weights  30 of 30 loaded from" in err
    assert "--freeze" not in err


def test_a_fine_tuning_does_not_go_on_from_pretraining(tiny, inside, trained):
    result = inside(tiny.flags(trained, do_train=True))
    assert_refused(result, "task_name (was pretraining, is mrpc)")


def test_a_file_without_text_is_not_scored(tmp_path, pretrain, trained):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    args = ["--do_predict", f"--predict_file={empty}", f"--output_dir={trained}"]
    assert_refused(pretrain(args), f"{empty}: holds no text")


def test_plan_trains_nothing(tmp_path, flags, pretrain):
    code, _, err = pretrain(flags(tmp_path / "out", plan=True))
    assert code == 0, err
    assert "12: 40 rows, 2.4 epochs" in " ".join(err.split())
    assert not list((tmp_path / "out").glob("model.ckpt*"))
