"""Where the first weights come from, and what is said of them."""

import json
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read, huggingface_read, huggingface_write
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from tests.support.tiny import write_task


def weights_of(output_dir):
    return google_read.read(output_dir)


def short(tiny, output_dir, **changed):
    """A run that changes no weight."""
    settings = {"do_train": True, "max_train_steps": 0}
    return tiny.flags(output_dir, **{**settings, **changed})


@pytest.fixture
def folder(tiny, tmp_path):
    """The tiny model, fine-tuned on two classes, as a Hugging Face folder."""
    config = BertConfig.from_json_file(tiny.model / "bert_config.json")
    specs = params_lib.bert_specs(config) | params_lib.classifier_specs(config, 2)
    weights = params_lib.initialize(specs, 0.3, seed=9)
    labels = ["0", "1"]
    path = tmp_path / "hf"
    huggingface_write.export(
        path,
        weights,
        config,
        vocab_file=tiny.model / "vocab.txt",
        do_lower_case=True,
        labels=labels,
    )
    return path, weights


def test_google_checkpoint(tiny, tmp_path, inside):
    code, _, err = inside(short(tiny, tmp_path))
    assert code == 0, err
    assert "weights  23 of 25 loaded from" in err
    assert "new, initialised at random: output_bias, output_weights" in err
    first = google_read.read(tiny.model / "bert_model.ckpt")
    now = weights_of(tmp_path)
    assert all(np.array_equal(now[name], value) for name, value in first.items())


@pytest.mark.parametrize("what", ["folder", "file"])
def test_hugging_face_needs_no_other_flags(tiny, tmp_path, inside, folder, what):
    path, weights = folder
    start = path if what == "folder" else path / "model.safetensors"
    flags = {"vocab_file": None, "bert_config_file": None, "init_checkpoint": start}
    code, _, err = inside(short(tiny, tmp_path / "out", **flags))
    assert code == 0, err
    assert "weights  25 of 25 loaded from" in err
    assert "random" not in err
    now = weights_of(tmp_path / "out")
    assert all(np.array_equal(now[name], value) for name, value in weights.items())


def test_own_run_with_another_number_of_labels(tiny, tmp_path, inside):
    first = tmp_path / "first"
    assert inside(tiny.flags(first, do_train=True))[0] == 0
    (first / "label_list.txt").unlink()  # else its labels would differ, not its shape
    data = tmp_path / "data"
    write_task(data, "own")
    task = json.loads((data / "task.json").read_text())
    (data / "task.json").write_text(json.dumps(task | {"labels": ["no", "yes", "?"]}))
    flags = {
        "task_name": "own",
        "data_dir": data,
        "init_checkpoint": first,
        "vocab_file": None,
        "bert_config_file": None,
    }
    code, _, err = inside(short(tiny, tmp_path / "second", **flags))
    assert code == 0, err
    head = "new head, initialised at random: "
    assert f"{head}output_weights has shape [3, 32], in the checkpoint [2, 32]" in err
    assert f"{head}output_bias" in err
    assert "adam" not in err and "not used" not in err
    before, now = weights_of(first), weights_of(tmp_path / "second")
    assert now["output_weights"].shape == (3, 32)
    name = "bert/encoder/layer_0/output/dense/kernel"
    assert np.array_equal(before[name], now[name])


def test_labels_keep_the_order_of_the_trained_head(tiny, tmp_path, inside, folder):
    """They would be sorted, no before yes, if the head were new."""
    path, weights = folder
    config = json.loads((path / "config.json").read_text())
    config |= {"id2label": {"0": "yes", "1": "no"}, "label2id": {"yes": 0, "no": 1}}
    (path / "config.json").write_text(json.dumps(config))
    out = tmp_path / "out"
    flags = {"vocab_file": None, "bert_config_file": None, "init_checkpoint": path}
    code, _, err = inside(short(tiny, out, task="own", **flags))
    assert code == 0, err
    assert "labels  2: yes, no" in err
    assert (out / "label_list.txt").read_text() == "yes\nno\n"
    now = weights_of(out)["output_weights"]
    assert np.array_equal(now, weights["output_weights"])


def test_without_a_checkpoint_all_starts_at_random(tiny, tmp_path, inside):
    code, _, err = inside(short(tiny, tmp_path / "a", init_checkpoint=None))
    assert code == 0, err
    assert "all 25 are initialised at random: no --init_checkpoint" in err
    assert inside(short(tiny, tmp_path / "b", init_checkpoint=None))[0] == 0
    other = short(tiny, tmp_path / "c", init_checkpoint=None, seed=7)
    assert inside(other)[0] == 0
    name = "bert/embeddings/word_embeddings"
    a, b, c = (weights_of(tmp_path / x)[name] for x in "abc")
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert abs(a.std() - 0.0176) < 0.002  # 0.02 cut at two deviations


def test_checkpoint_of_a_run_of_googles_code_is_resumed(tiny, tmp_path, inside):
    """Its folder has no run.json of ours and no identity in the checkpoint."""
    straight = tmp_path / "straight"
    assert inside(tiny.flags(straight, do_train=True, save_checkpoints_steps=3))[0] == 0
    google = tmp_path / "google"
    google.mkdir()
    tensors = google_read.read(straight / "model.ckpt-3")
    del tensors["bert_mgpu/identity"]
    google_read.write(google / "model.ckpt-3", tensors)
    code, _, err = inside(tiny.flags(google, do_train=True))
    assert code == 0, err
    assert "resuming  from" in err and "step 3 with" in err
    assert "written by other code" in err
    wanted, actual = weights_of(straight), weights_of(google)
    assert all(np.array_equal(wanted[name], actual[name]) for name in wanted)


def test_another_start_is_not_taken_without_a_word(tiny, tmp_path, inside):
    out = tmp_path / "out"
    shutil.copytree(tiny.model, tmp_path / "other")
    other = {"init_checkpoint": tmp_path / "other" / "bert_model.ckpt"}
    first = str(tiny.model / "bert_model.ckpt")

    def trained(**flags):
        code, _, err = inside(tiny.flags(out, do_train=True, **flags))
        assert code == 0, err
        flags = json.loads((out / "run.json").read_text())["flags"]
        assert flags["init_checkpoint"] == first  # what it began from
        return err

    assert "WARNING  --init_checkpoint" not in trained()
    assert "was read when the run began" in trained()
    err = trained(num_train_epochs=2, **other)
    assert f"{other['init_checkpoint']} is not read: this run began from {first}" in err


@pytest.mark.parametrize(("task", "said"), [("mrpc", True), ("own", False)])
def test_truncation_of_pairs_is_said_to_do_nothing(tiny, tmp_path, inside, task, said):
    args = tiny.flags(tmp_path, task, do_train=True, truncation="tail")
    code, _, err = inside(args)
    assert code == 0, err
    assert ("--truncation=tail: pairs of texts are still cut at the end" in err) == said


def test_export_is_what_was_trained(tiny, tmp_path, inside):
    out, exported = tmp_path / "out", tmp_path / "hf"
    flags = tiny.flags(out, do_train=True, do_predict=True, export_hf=exported)
    assert inside(flags)[0] == 0
    stored, trained = huggingface_read.read(exported), weights_of(out)
    assert all(np.array_equal(trained[name], value) for name, value in stored.items())
    shutil.copy(out / "test_results.tsv", tmp_path / "wanted")
    code, _, err = inside(
        tiny.flags(
            tmp_path / "other",
            vocab_file=None,
            bert_config_file=None,
            init_checkpoint=exported,
            do_predict=True,
        )
    )
    assert code == 0, err
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / "other" / "test_results.tsv"),
        np.loadtxt(tmp_path / "wanted"),
        atol=1e-6,
    )


def test_without_a_step_the_first_weights_are_the_model(tiny, tmp_path, inside):
    """It is evaluated and used like a trained one, and may be trained later."""
    out, used = tmp_path / "out", {"do_eval": True, "do_predict": True}
    out.mkdir()
    (out / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    code, _, err = inside(short(tiny, out, num_train_epochs=0.01, **used))
    assert code == 0, err
    assert f"saved, without a step of training: model.ckpt-0 in {out}" in err
    assert "loss did not fall" not in err
    assert "ended" in json.loads((out / "run.json").read_text())["training"]
    assert not (out / "metrics.jsonl").exists()  # of an earlier training
    before = (out / "predict.txt").read_bytes()
    code, _, err = inside(tiny.flags(out, do_predict=True))
    assert code == 0, err
    assert (out / "predict.txt").read_bytes() == before
    trained = {"do_train": True, "max_train_steps": 2}
    for folder in (out, tmp_path / "at_once"):
        code, _, err = inside(tiny.flags(folder, **trained))
        assert code == 0, err
    now, wanted = weights_of(out), weights_of(tmp_path / "at_once")
    assert all(np.array_equal(now[name], value) for name, value in wanted.items())
