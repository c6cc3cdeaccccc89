"""Ranking from training to rewrites.jsonl: groups of own tasks, slots of ads."""

import json
import random
import shutil

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

import bert_mgpu
from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import serve
from bert_mgpu.config.serve import ServeConfig
from bert_mgpu.evaluation import result_files
from tests.support import ranked
from tests.support.marks import rarely
from tests.support.runs import assert_refused
from tests.support.standard_input import typed

NAMES = ("mrr", "hit_at_1", "hit_at_3", "ndcg")
PARTS = {"train": ranked.small(24, 1), "dev": ranked.small(15, 2)}
SAID = "groups scored: 12; left out, with rows of one label: 3"


@pytest.fixture(scope="module")
def model(tiny, trained, tmp_path_factory):
    """The output_dir of a training whose best weights are those with the best mrr."""
    data = tmp_path_factory.mktemp("ranked")
    ranked.write(data, PARTS)
    flags = {"data_dir": data, "eval_steps": 10, "best_metric": "mrr"}
    flags |= {"num_train_epochs": 3, "report": True}
    return trained("mine", **flags), data


def scores(folder):
    found = result_files.read_evaluation(folder / "eval_results.txt")
    return {name: found[name] for name in NAMES}


def records(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_any_of_the_scores_may_choose_the_best_weights(model):
    out, _ = model
    history = [row for row in records(out / "evaluations.jsonl") if "set" in row]
    best = json.loads((out / "best" / "best.json").read_text())
    assert best["metric"] == "mrr" and len(history) > 2
    assert best["value"] == max(row["mrr"] for row in history)
    assert {*NAMES} <= {*history[0]}
    baseline = json.loads((out / "baseline.json").read_text())["dev"]
    assert 0 < baseline["mrr"] <= 1
    page = (out / "report.html").read_text("utf-8")
    assert all(f"<td>{name}" in page or f">{name}<" in page for name in NAMES)


def test_towers_padding_and_the_order_of_rows_change_no_digit(
    model, tiny, inside, tmp_path
):
    """Rows with the text of another one are at other places of other batches."""
    out, data = model
    shuffled = tmp_path / "data"
    shutil.copytree(data, shuffled)
    rows = PARTS["dev"]
    order = random.Random(5).sample(range(len(rows)), len(rows))
    ranked.write(shuffled, {"dev": [rows[index] for index in order]})
    runs = [
        {"n_gpus": 1, "padding": "longest", "eval_batch_size": 8},
        {"n_gpus": 2, "padding": "pack", "eval_batch_size": 3},
        {"n_gpus": 4, "padding": "bucket", "eval_batch_size": 1},
        {"n_gpus": 1, "padding": "max_length", "eval_batch_size": 5},
        {"n_gpus": 2, "padding": "longest", "data_dir": shuffled},
    ]
    found, written = [], []
    for number, flags in enumerate(runs):
        own = tmp_path / str(number)
        flags = {"data_dir": data, "init_checkpoint": out, "do_eval": True, **flags}
        args = tiny.flags(own, "mine", **flags, do_predict=True, vocab_file=None)
        code, _, err = inside(args)
        assert code == 0 and SAID in err and "15 groups of 2 to 5 rows" in err, err
        found.append(scores(own))
        lines = records(own / "rewrites.jsonl")
        written.append(
            {
                line["group"]: [row["text_a"] for row in line["candidates"]]
                for line in lines
            }
        )
    assert all(one == found[0] for one in found)
    assert all(one == written[0] for one in written)
    check_against_scikit_learn(tmp_path / "0", found[0])


def check_against_scikit_learn(out, found):
    """From the lines of rewrites.jsonl alone; rows of the same text tie."""
    dev = PARTS["dev"]
    precisions, gains = [], []
    for record in records(out / "rewrites.jsonl"):
        rows = record["candidates"]
        labels = [dev[row["line"] - 2][1] for row in rows]  # behind the header
        assert [dev[row["line"] - 2][2] for row in rows] == [r["text_a"] for r in rows]
        values = [row["probability"] for row in rows]
        assert values == sorted(values, reverse=True)
        texts = [*dict.fromkeys(row["text_a"] for row in rows)]
        shares = [*dict.fromkeys(values)]  # what does not tie is no rounding
        assert len(shares) == len(texts) and (np.diff(shares) < -3e-6).all()
        places = [-texts.index(row["text_a"]) for row in rows]
        if {*labels} == {0, 1}:
            precisions.append(label_ranking_average_precision_score([labels], [places]))
            gains.append(ndcg_score([labels], [places]))
    assert len(gains) == 12
    assert found["mrr"] == pytest.approx(np.mean(precisions), abs=1e-12)
    assert found["ndcg"] == pytest.approx(np.mean(gains), abs=1e-12)


def test_streams_answer_rows_without_their_groups(model, tiny, inside, tmp_path):
    """Texts alone: a stream waits for no group."""
    out, data = model
    sent = tmp_path / "sent"
    sent.write_text("sun\nrain\n")
    flags = {"data_dir": data, "init_checkpoint": out, "predict_file": "-"}
    args = tiny.flags(tmp_path / "out", "mine", **flags, do_predict=True)
    with typed(sent):
        code, printed, err = inside(args)
    assert code == 0 and len(printed.splitlines()) == 2, err
    assert not (tmp_path / "out" / "rewrites.jsonl").exists()


@pytest.fixture(scope="module")
def ads(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ads") / "data"
    ranked.write_ads(folder)
    return folder


@pytest.mark.parametrize("ad_slot", ["words", *rarely("mask")])
def test_slots_of_ads_are_ranked_and_may_be_masked(
    ads, tiny, trained, inside, tmp_path, *, ad_slot
):
    flags = {"do_eval": True, "do_predict": True, "data_dir": ads}
    flags |= {"cache_dir": tmp_path / "cache"}  # of both
    plain = trained("ad", **flags, max_seq_length=32)
    masked = trained("ad", **flags, max_seq_length=32, ad_slot=ad_slot)
    lines = records(plain / "rewrites.jsonl")
    rows = (ads / "eval_0620.txt").read_text("utf-8").splitlines()
    assert len(lines) == 6 and len((plain / "predict.txt").read_text().split()) == 18
    for number, line in enumerate(lines):
        start, end = line["slot"]
        assert line["ad"][start:end] == "“" and len(line["candidates"]) == 3
        for row in line["candidates"]:
            _, _, phrase, _ = rows[row["line"] - 1].split("\t")
            assert row["phrase"] == phrase and (row["line"] - 1) // 3 == number
            assert row["text"] == line["ad"][:start] + phrase + line["ad"][end:]
    assert {*NAMES} <= {*result_files.read_evaluation(plain / "eval_results.txt")}
    one, other = (google_read.read(folder) for folder in (plain, masked))
    name = "bert/encoder/layer_0/output/dense/kernel"
    assert not np.array_equal(one[name], other[name])
    if ad_slot == "words":  # it begins with how rare each word is
        assert other["cls/slot/word_bias"].std() > 0.1
    # A later run of the model reads slots as its training did.
    again = {"do_predict": True, "data_dir": ads, "init_checkpoint": masked}
    args = tiny.flags(tmp_path / "again", "ad", **again, vocab_file=None)
    code, _, err = inside([arg for arg in args if "max_seq_length" not in arg])
    assert code == 0, err
    wanted = (masked / "test_results.tsv").read_bytes()
    assert (tmp_path / "again" / "test_results.tsv").read_bytes() == wanted
    assert (plain / "test_results.tsv").read_bytes() != wanted
    records_of = records(masked / "predictions.jsonl")
    with bert_mgpu.load(masked) as loaded:
        asked = [tuple(row.split("\t")[2:]) for row in rows]
        for found, record in zip(loaded.predict(asked), records_of, strict=True):
            assert found.probabilities == pytest.approx(
                record["probabilities"], abs=1e-5
            )
    served = serve.LoadedModel(ServeConfig(output_dir=str(masked)))
    examples = [served.example(*own) for own in asked]
    for found, record in zip(served.answer(examples), records_of, strict=True):
        right = record["probabilities"]["1"]
        assert found["probabilities"][1] == pytest.approx(right, abs=1e-5)
        assert found["label"] == record["label"]
    shown = served.explain(examples[0])
    assert ("tokens" in shown) == (ad_slot != "words") and "“" not in shown["unknown"]
    bars = dict(shown["bars"])
    assert bars["1"] == pytest.approx(records_of[0]["probabilities"]["1"], abs=1e-5)
    # So does one on four towers.
    flags = again | {"n_gpus": 4, "eval_batch_size": 1}
    args = tiny.flags(tmp_path / "towers", "ad", **flags, vocab_file=None)
    code, _, err = inside([arg for arg in args if "max_seq_length" not in arg])
    assert code == 0, err
    pair = (
        np.loadtxt(out / "test_results.tsv") for out in (masked, tmp_path / "towers")
    )
    np.testing.assert_allclose(*pair, atol=1e-5)


SINGLES = [(f"q{number}", number % 2, "sun") for number in range(30)]
MISTAKES = [
    ({"text_a": "text", "group": "topic"}, {}, ":1: no column 'topic'", "'about'"),
    ({"group": -2}, {}, "'group' is -2: columns count from 0"),
    ({"type": "multi"}, {}, "'group' is only for the type 'single'"),
    ({"type": "regression"}, {}, "'group' is only for the type 'single'"),
    ({"group": None, "qid": "about"}, {}, "unknown key 'qid': did you mean 'group'?"),
    ({}, {"task_type": "tags"}, "'group' is only for the type 'single'"),
    (
        {"labels": ["no", "yes", "so"]},
        {},
        "--group_column=about: groups are ranked by the second of two labels",
        "mine has 3",
    ),
    ({"group": None}, {"best_metric": "mrr", "eval_steps": 1}, "--best_metric=mrr"),
    ({}, {"ad_slot": "mask"}, "--ad_slot=mask: mine has no slots"),
    ({}, {"ad_slot": "none"}, "--ad_slot=none: pass one of unk, mask, words"),
    (
        {},
        {"task_name": "mrpc", "group_column": 3},
        "--group_column: mrpc is a built-in",
    ),
]


@pytest.mark.parametrize(
    ("changed", "flags", "fragments"), [(c, f, m) for c, f, *m in MISTAKES], ids=str
)
def test_mistakes(tiny, inside, tmp_path, changed, flags, fragments):
    ranked.write(tmp_path / "data", PARTS, **changed)
    flags = {"task_name": "mine", "data_dir": tmp_path / "data", **flags}
    args = tiny.flags(tmp_path / "out", do_train=True, **flags)
    assert_refused(inside(args), *fragments)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_groups_of_one_row_each_are_a_mistake(tiny, inside, tmp_path, split):
    ranked.write(tmp_path / "data", {**PARTS, split: SINGLES})
    flags = {"do_train": True, "do_eval": True, "data_dir": tmp_path / "data"}
    path = tmp_path / "data" / f"{split}.tsv"
    assert_refused(
        inside(tiny.flags(tmp_path / "out", "mine", **flags)),
        f"{path}: no two rows have the same 'about'",
        "pass a column whose value is the same",
    )


def test_a_score_of_groups_needs_groups_of_both_labels(tiny, inside, tmp_path):
    none = [(group, 0, text) for group, _, text in PARTS["dev"]]
    ranked.write(tmp_path / "data", {**PARTS, "dev": none})
    flags = {"do_train": True, "eval_steps": 1, "best_metric": "ndcg"}
    args = tiny.flags(tmp_path / "out", "mine", data_dir=tmp_path / "data", **flags)
    assert_refused(inside(args), "--best_metric=ndcg: evaluations of this task give")


@pytest.mark.parametrize(
    ("ad_slot", "export", "why"),
    [
        ("mask", "export_saved_model", "its graph does not look for slots"),
        ("words", "export_saved_model", "its graph does not look for slots"),
        ("words", "export_onnx", "its graph does not look for slots"),
        ("words", "export_hf", "transformers has no model that ranks by words"),
    ],
)
def test_exports_that_cannot_do_it(
    ads, tiny, inside, tmp_path, *, ad_slot, export, why
):
    flags = {"do_train": True, "data_dir": ads, "ad_slot": ad_slot}
    flags |= {export: tmp_path / "saved"}
    assert_refused(
        inside(tiny.flags(tmp_path / "out", "ad", **flags)),
        f"--{export} with --ad_slot={ad_slot}: {why}",
    )


def test_a_layer_that_words_do_not_have(ads, tiny, inside, tmp_path):
    flags = {"do_train": True, "data_dir": ads, "ad_slot": "words"}
    assert_refused(
        inside(tiny.flags(tmp_path / "out", "ad", **flags, classifier_dropout=0.2)),
        "--classifier_dropout with --ad_slot=words: there is no such layer",
    )


def test_a_model_without_words_is_told_to_learn_them_first(
    model, ads, tiny, inside, tmp_path
):
    flags = {"do_train": True, "data_dir": ads, "init_checkpoint": model[0] / "best"}
    args = tiny.flags(tmp_path / "out", "ad", **flags, ad_slot="words")
    code, _, err = inside([*args, "--max_train_steps=0", "--do_eval=true"])
    assert code == 0, err
    assert "a random masked-word head, by which --ad_slot=words" in " ".join(
        err.split()
    )
    # Untrained, it ranks by what it weighed the words with at its start.
    kept = google_read.read(tmp_path / "out")["cls/slot/word_bias"]
    assert kept.std() > 0.1 and kept.min() == pytest.approx(np.log(1e-9))
    scores = result_files.read_evaluation(tmp_path / "out" / "eval_results.txt")
    assert {*NAMES} <= {*scores}


def test_a_group_is_in_one_part_of_dev_share(tiny, inside, tmp_path):
    ranked.write(tmp_path / "data", PARTS, dev=None)
    flags = {"do_train": True, "do_eval": True, "do_predict": True, "dev_share": 0.3}
    flags |= {"predict_file": tmp_path / "data" / "train.tsv"}
    out = tmp_path / "out"
    args = tiny.flags(out, "mine", data_dir=tmp_path / "data", **flags)
    code, _, err = inside(args)
    assert code == 0, err
    assert {*NAMES} <= {*result_files.read_evaluation(out / "eval_results.txt")}
    counts = [
        int(line.split(" groups of ")[0].split()[-1])
        for line in err.splitlines()
        if " groups of " in line
    ]
    assert len(counts) == 3 and counts[0] + counts[1] == counts[2] == 24
