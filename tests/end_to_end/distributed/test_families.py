"""Tasks of all kinds by several processes: one process that has all of their towers."""

import json

import pytest

from tests.support import entities, questions, ranked, rewriting
from tests.support.runs import assert_same_run

FLAGS = {"do_train": True, "do_eval": True, "do_predict": True, "padding": "pack"}
FLAGS |= {"train_batch_size": 3, "eval_batch_size": 2, "learning_rate": 5e-3}
OUTPUTS = ("predict.txt", "predictions.jsonl", "eval_results.txt")


@pytest.fixture
def several(tiny, tmp_path, inside, cluster):
    """several(task, *outputs, **flags) -> the output_dir of two processes.

    It is that of one process, bit for bit.
    """

    def check(task, *outputs, **flags):
        flags = FLAGS | flags
        one, two = tmp_path / "one", tmp_path / "two"
        code, _, err = inside(tiny.flags(one, task, n_gpus=4, **flags))
        assert code == 0, err
        code, out = cluster.run(2, tiny.flags(two, task, n_gpus=2, **flags))
        assert code == 0, out
        assert_same_run(one, two)
        for name in (*OUTPUTS, *outputs):
            assert (two / name).read_bytes() == (one / name).read_bytes(), name
        return two

    return check


def test_entities_with_a_random_field(several, tmp_path):
    """Sentences of several windows, too, whose rows the processes divide."""
    entities.write_task(tmp_path / "data", "ner")
    flags = {"crf": True, "head_lr_factor": 100, "num_train_epochs": 6}
    out = several("ner", "label_test.txt", data_dir=tmp_path / "data", **flags)
    assert "B-GOOD" in (out / "predict.txt").read_text()


@pytest.mark.nightly
def test_answers_to_questions(several, tmp_path):
    """Contexts of several windows, too, whose rows the processes divide."""
    parts = {
        "train": questions.small(64, 1, negative=0.3),
        "dev": questions.small(21, 2, negative=0.3),
    }
    questions.write(tmp_path / "data", "squad2", parts)
    flags = {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}
    flags |= {"num_train_epochs": 4, "data_dir": tmp_path / "data"}
    lists = "nbest_predictions.json", "null_odds.json"
    out = several("squad2", *lists, **flags)
    assert len({*(out / "predict.txt").read_text().splitlines()}) > 3


@pytest.mark.nightly
def test_texts_of_several_segments(several):
    flags = {"max_seq_length": 8, "max_segments": 3, "num_train_epochs": 4}
    out = several("own", "test_results.tsv", segment_pooling="attention", **flags)
    assert len((out / "predict.txt").read_text().splitlines()) == 11


@pytest.mark.nightly
def test_rewritten_texts(several, tmp_path):
    """In rounds of passes, whose rows the processes divide; some have slots."""
    rewriting.write_task(tmp_path / "data", counts=(48, 13, 9))
    slot = {"source": "sun [SLOT] rain", "context": "joy win", "target": "sun win rain"}
    for path in (tmp_path / "data").glob("*.jsonl"):
        with path.open("a") as file:
            file.write(f"{json.dumps(slot)}\n" * 3)
    flags = {"max_seq_length": 24, "max_insert": 3, "num_train_epochs": 8}
    flags |= {"data_dir": tmp_path / "data", "insert_from": "input"}
    out = several("mine", **flags)
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    counts = [len(record["candidates"]) for record in records]
    assert len(records) == 12 and min(counts[9:]) > 1, counts


def test_groups_of_rows_whose_parts_are_with_several_processes(several, tmp_path):
    parts = {"train": ranked.small(12, 1), "dev": ranked.small(15, 2)}
    ranked.write(tmp_path / "data", parts)
    flags = {"eval_steps": 4, "best_metric": "ndcg", "data_dir": tmp_path / "data"}
    out = several("mine", "rewrites.jsonl", num_train_epochs=2, **flags)
    assert len((out / "rewrites.jsonl").read_text("utf-8").splitlines()) == 15
    assert "\nndcg = 0." in (out / "eval_results.txt").read_text()
    assert '"metric": "ndcg"' in (out / "best" / "best.json").read_text()


@pytest.mark.nightly
def test_phrases_that_are_ranked_by_their_words(several, tmp_path):
    """The first process weighs the words, for all."""
    ranked.write_ads(tmp_path / "data")
    flags = {"data_dir": tmp_path / "data", "ad_slot": "words", "max_seq_length": 32}
    out = several("ad", "rewrites.jsonl", num_train_epochs=2, **flags)
    assert len((out / "rewrites.jsonl").read_text("utf-8").splitlines()) == 6
