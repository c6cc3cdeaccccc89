"""Entities by several processes: those of one process that has all of their towers."""

from tests.support import entities
from tests.support.runs import assert_same_run

FLAGS = {"do_train": True, "do_eval": True, "do_predict": True, "crf": True}
FLAGS |= {"num_train_epochs": 6, "train_batch_size": 3, "head_lr_factor": 100}
FLAGS |= {"learning_rate": 5e-3, "padding": "pack", "eval_batch_size": 2}
OUTPUTS = ("predict.txt", "predictions.jsonl", "label_test.txt", "eval_results.txt")


def test_the_same_bits_with_a_random_field(tiny, tmp_path, inside, cluster):
    """Sentences of several windows, too, whose rows the processes divide."""
    entities.write_task(tmp_path / "data", "ner")
    flags = {**FLAGS, "data_dir": tmp_path / "data"}
    alone, several = tmp_path / "alone", tmp_path / "several"
    code, _, err = inside(tiny.flags(alone, "ner", n_gpus=4, **flags))
    assert code == 0, err
    code, out = cluster.run(2, tiny.flags(several, "ner", n_gpus=2, **flags))
    assert code == 0, out
    assert_same_run(alone, several)
    for name in OUTPUTS:
        assert (several / name).read_bytes() == (alone / name).read_bytes(), name
    assert "B-GOOD" in (several / "predict.txt").read_text()
