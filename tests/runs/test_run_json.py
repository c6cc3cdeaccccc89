"""run.json: what it tells of a run, and keeps of its beginning."""

import datetime
import json
import platform
import types

import numpy as np

from bert_mgpu.checkpoints import train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.task import TrainState
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import run_json

CONFIG = BertConfig(
    7, 8, 1, num_attention_heads=2, intermediate_size=12, max_position_embeddings=6
)
MODEL = Pretrained(
    CONFIG, "config", None, vocab_file=None, do_lower_case=True, labels=None
)


def save(folder):
    state = TrainState({"w": np.zeros(2, np.float32)}, {}, 3, identity={"seed": 42})
    train_state.save(folder, state, 5)


def write_run_files(output_dir, init_checkpoint, **flags):
    run = types.SimpleNamespace(
        config=FinetuneConfig(init_checkpoint=init_checkpoint, max_seq_length=9),
        model=MODEL,
        task=types.SimpleNamespace(labels=("a", "b")),
        data=types.SimpleNamespace(task={"name": "mine"}),
        frozen=["x"],
        devices=["a card"],
        batch_in_words="8 examples x 2 towers = 16 per step",
        output_dir=output_dir,
    )
    run_json.write(run, {"seed": 42}, **flags)


def test_a_folder_of_tf1_code_began_as_this_command_says(tmp_path):
    """It has no run.json: that does not mean random weights."""
    save(tmp_path)
    write_run_files(tmp_path, "start")
    flags = json.loads((tmp_path / "run.json").read_text())["flags"]
    assert flags["init_checkpoint"].endswith("/start")


def test_run_files_say_how_it_began(tmp_path):
    """The start's name is kept, whatever a later command names."""
    for given in ("start", "another"):
        write_run_files(tmp_path, given)
        save(tmp_path)
        if given == "start":
            first = json.loads((tmp_path / "run.json").read_text())
            first["training"] |= {"began": "2026-01-01T00:00:00+00:00"}
            (tmp_path / "run.json").write_text(json.dumps(first))
    began = json.loads((tmp_path / "run.json").read_text())["training"]
    assert began["began"] == "2026-01-01T00:00:00+00:00"
    assert began["host"] == platform.node() and began["devices"] == ["a card"]
    assert began["batch"] == "8 examples x 2 towers = 16 per step"
    assert began["seconds"] == 0 and "ended" not in began
    for seconds, ended in ((1.5, False), (2.25, True)):
        run_json.note_time(tmp_path, seconds, ended=ended)
        facts = json.loads((tmp_path / "run.json").read_text())
        assert ("ended" in facts["training"]) == ended
    assert facts["flags"]["init_checkpoint"].endswith("/start")
    ended = facts["training"]
    assert ended["began"] == began["began"] and ended["seconds"] == 3.8
    times = [datetime.datetime.fromisoformat(ended[at]) for at in ("began", "ended")]
    assert times == sorted(times) and times[0].tzinfo is not None
    assert facts["flags"]["max_seq_length"] == 9 and facts["frozen"] == ["x"]
    assert "do_lower_case" not in facts["flags"]  # the model has no vocabulary
    assert (tmp_path / "label_list.txt").read_text() == "a\nb\n"
    assert not (tmp_path / "vocab.txt").exists()


def test_a_rollback_to_the_start_is_no_new_beginning(tmp_path):
    write_run_files(tmp_path, None)
    run_json.note_time(tmp_path, 5.0, ended=False)
    write_run_files(tmp_path, None, rolled_back=True)
    assert json.loads((tmp_path / "run.json").read_text())["training"]["seconds"] == 5
    write_run_files(tmp_path, None)
    assert json.loads((tmp_path / "run.json").read_text())["training"]["seconds"] == 0
