"""Answers by several processes: those of one process that has all of their towers."""

from tests.support import questions
from tests.support.runs import assert_same_run

FLAGS = {"do_train": True, "do_eval": True, "do_predict": True, "max_seq_length": 24}
FLAGS |= {"num_train_epochs": 4, "train_batch_size": 3, "doc_stride": 8}
FLAGS |= {"learning_rate": 5e-3, "padding": "pack", "eval_batch_size": 2}
FLAGS |= {"max_query_length": 4}
OUTPUTS = ("predict.txt", "predictions.jsonl", "nbest_predictions.json")
OUTPUTS += ("null_odds.json", "eval_results.txt")


def test_the_same_bits(tiny, tmp_path, inside, cluster):
    """Contexts of several windows, too, whose rows the processes divide."""
    parts = {
        "train": questions.small(64, 1, negative=0.3),
        "dev": questions.small(21, 2, negative=0.3),
    }
    questions.write(tmp_path / "data", "squad2", parts)
    flags = {**FLAGS, "data_dir": tmp_path / "data"}
    alone, several = tmp_path / "alone", tmp_path / "several"
    code, _, err = inside(tiny.flags(alone, "squad2", n_gpus=4, **flags))
    assert code == 0, err
    code, out = cluster.run(2, tiny.flags(several, "squad2", n_gpus=2, **flags))
    assert code == 0, out
    assert_same_run(alone, several)
    for name in OUTPUTS:
        assert (several / name).read_bytes() == (alone / name).read_bytes(), name
    assert len({*(several / "predict.txt").read_text().splitlines()}) > 3
