"""What a run reads is not replaced by what it writes; settings found later are kept."""

import json
import re
import shutil

import pytest

from tests.support.runs import assert_refused, tree


@pytest.fixture
def out(trained, tmp_path):
    """A copy of a trained folder."""
    shutil.copytree(trained("own"), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("way", ["directly", "through a link", "of several files"])
def test_a_file_is_not_replaced_by_its_predictions(tiny, inside, out, tmp_path, way):
    name = "predicted/a.txt" if way == "of several files" else "predict.txt"
    own = out / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("good film\nbad film\n")
    (tmp_path / "link.txt").symlink_to(own)
    read = tmp_path / "link.txt" if way == "through a link" else own
    flags = [f"--output_dir={out}", "--do_predict=true", f"--predict_file={read}"]
    message = f"a run writes to {name.split('/')[0]} in its --output_dir, and may"
    assert_refused(inside(flags), f"{read}: {message}")
    assert own.read_text() == "good film\nbad film\n"


def test_a_data_set_is_not_replaced_by_predictions(tiny, inside, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(tiny.data("own"), data)
    (data / "test.tsv").rename(data / "test_results.tsv")
    flags = {"data_dir": data, "test_file": "test_results.tsv", "do_predict": True}
    before = (data / "test_results.tsv").read_bytes()
    given = tiny.flags(data, "own", do_train=True, **flags)
    assert_refused(
        inside(given), "a run writes to test_results.tsv in its --output_dir"
    )
    assert (data / "test_results.tsv").read_bytes() == before


def test_the_model_that_is_read_is_not_replaced(tiny, inside, tmp_path):
    hub = tmp_path / "hub"
    flags = {"do_train": True, "max_train_steps": 1}
    given = tiny.flags(tmp_path / "first", "own", **flags, export_hf=hub)
    assert inside(given)[0] == 0
    before = tree(hub)
    again = {"init_checkpoint": hub, "vocab_file": None, "bert_config_file": None}
    given = tiny.flags(tmp_path / "new", "own", **flags | again, export_hf=hub)
    message = "is also --init_checkpoint, whose files it would replace: pass another"
    assert_refused(inside(given), f"--export_hf={hub}: {message}")
    assert_refused(inside(tiny.flags(hub, "own", **flags | again)), message)
    assert tree(hub) == before
    # A run may begin anew in a folder of its own.
    first = {"init_checkpoint": tmp_path / "first", "max_train_steps": 2}
    given = tiny.flags(tmp_path / "first", "own", **flags | first)
    assert inside(given)[0] == 0


def test_a_threshold_found_after_the_training_is_kept(tiny, inside, out):
    def run(**flags):
        code, _, err = inside(tiny.flags(out, "own", do_train=True, **flags))
        assert code == 0 and "nothing left to train" in err, err
        return err

    before = tree(out)
    assert "settings" not in run()
    assert tree(out) == before
    assert "run.json has --threshold=0.9 now, which" in " ".join(
        run(threshold="0.9").split()
    )
    facts = json.loads((out / "run.json").read_text())
    assert facts["flags"]["threshold"] == facts["task"]["flags"]["threshold"] == "0.9"
    flags = [f"--output_dir={out}", "--predict_text=sun"]
    code, _, err = inside(flags)
    assert code == 0 and "--threshold=0.9, as the model was trained" in err, err


def test_a_score_that_no_evaluation_gives_ends_the_training(tiny, inside, tmp_path):
    """Equal texts have equal predictions, which correlate with nothing."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    task = {"text_a": 1, "label": 0, "type": "regression"}
    named = {"train": "train.tsv", "dev": "train.tsv"}
    (data / "task.json").write_text(json.dumps(task | named))
    (data / "train.tsv").write_text("".join(f"{n}\tsun\n" for n in range(16)))
    flags = {"do_train": True, "do_eval": True, "eval_steps": 1, "use_best": True}
    flags |= {"best_metric": "pearson", "early_stopping_patience": 2}
    given = tiny.flags(out, "same", data_dir=data, num_train_epochs=3, **flags)
    code, _, err = inside(given)
    words = " ".join(err.split())
    assert "no pearson, which is not defined for these predictions" in words
    assert "step 2: stopped early: no pearson in 2 evaluations" in words
    assert code == 2 and "a --best_metric that its evaluations have" in words
    assert not re.search("step 3 ", words)
