"""Outputs of tokens, examples of several rows, and a second pass, in whole runs."""

import itertools
import json
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.model import bert
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks import registry
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.pointing import script as pointing_script
from tests.support.pointing.forms import CLOSE, WINDOW
from tests.support.runs import assert_refused
from tests.support.standard_input import typed
from tests.support.tiny import rows
from tests.tasks.test_registry import longest

FLAGS = {"num_train_epochs": 3, "train_batch_size": 8, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each form; some texts have three rows of tokens."""
    root = tmp_path_factory.mktemp("tokens")
    for form in ("pointing_tokens", "pointing_twice"):
        (root / form).mkdir()
        task = {"type": form, "text_a": 1, "label": 0}
        for seed, (name, count) in enumerate({"train": 40, "dev": 13}.items()):
            task[name] = f"{name}.tsv"
            lines = [f"{longest(a)}\t{a}\n" for _, a, _ in rows(count, seed)]
            (root / form / f"{name}.tsv").write_text("".join(lines))
        (root / form / "task.json").write_text(json.dumps(task))
    return root


@pytest.fixture
def flags(tiny, data, monkeypatch):
    for name, kind in pointing_script.TYPES.items():
        monkeypatch.setitem(registry.TYPES, name, kind)

    def make(out, form, **changed):
        return tiny.flags(out, form, data_dir=data / form, **{**FLAGS, **changed})

    return make


@pytest.fixture
def trained(flags, inside, tmp_path_factory):
    """trained(form) -> the output_dir of a run of it; made once."""

    def make(form):
        folder = tmp_path_factory.getbasetemp() / form
        if not folder.exists():
            code, _, err = inside(flags(folder, form, do_train=True, do_eval=True))
            assert code == 0, err
        return folder

    return make


def texts(data):
    lines = (data / "pointing_tokens" / "dev.tsv").read_text().splitlines()
    return [line.split("\t")[1] for line in lines]


def token_logits(out, texts):
    """The words of each text and a logit each, every row alone and without padding."""
    params = google_read.read(out)
    config = BertConfig.from_json_file(out / "bert_config.json")
    tokenizer = Tokenizer(out / "vocab.txt")
    head = params["pointing/output_weights"][0]

    def logits(ids):
        ids = np.array([[tokenizer.cls_id, *ids, tokenizer.sep_id]], np.int32)
        row = {"input_ids": ids, "input_mask": np.ones_like(ids)}
        row["segment_ids"] = np.zeros_like(ids)
        return (bert.encode(params, config, row)[-1].numpy()[0] @ head)[1:-1]

    actual = []
    for text in texts:
        ids = tokenizer.ids(text)
        parts = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
        words = [tokenizer.tokens[token] for token in ids]
        actual.append((words, np.concatenate([logits(part) for part in parts]), ids))
    return actual, logits


@pytest.mark.parametrize(
    "settings",
    [
        [(1, 1), (4, 3), (9, 2), (9, 4)],
        *rarely([*itertools.product((1, 4, 9), (1, 2, 3, 4))]),
    ],
    ids=len,
)
def test_every_setting_gives_the_answers_of_single_rows(
    trained, flags, inside, data, settings
):
    out = trained("pointing_tokens")
    actual, _ = token_logits(out, texts(data))
    wanted = [words[int(scores.argmax())] for words, scores, _ in actual]
    assert max(len(ids) for _, _, ids in actual) > 2 * WINDOW  # of three rows
    for batch, towers in settings:
        asked = {"predict_batch_size": batch, "n_gpus": towers, "do_predict": True}
        code, _, err = inside(flags(out, "pointing_tokens", **asked, cpu_devices=2))
        assert code == 0, err
        assert (out / "predict.txt").read_text().splitlines() == wanted
        values = np.loadtxt(out / "test_results.tsv", ndmin=1)
        np.testing.assert_allclose(values, [s.max() for _, s, _ in actual], atol=1e-5)
    lines = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    assert [line["line"] for line in lines] == [*range(1, len(wanted) + 1)]


@pytest.mark.parametrize(
    "padding", ["longest", "pack", *rarely("max_length", "bucket")]
)
def test_losses_of_tokens_are_the_same_for_every_padding(
    flags, inside, tmp_path, padding
):
    """Without dropout two towers learn what one of twice the rows learns."""
    losses = []
    for towers, batch in ((1, 8), (2, 4)):
        out = tmp_path / str(towers)
        asked = {"n_gpus": towers, "train_batch_size": batch, "padding": padding}
        asked |= {"do_train": True, "num_train_epochs": 1, "log_steps": 1}
        asked |= {"classifier_dropout": 0.0}
        code, _, err = inside(flags(out, "pointing_tokens", **asked))
        assert code == 0, err
        records = [json.loads(line) for line in (out / "metrics.jsonl").open()]
        losses.append([record["loss"] for record in records])
    assert len(losses[0]) >= 5
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def twice_by_hand(out, data):
    """The answers of two passes, and how many texts needed the second."""
    actual, logits = token_logits(out, texts(data))
    answers, again = [], 0
    for words, scores, ids in actual:
        best = np.argsort(-scores, kind="stable")[:2]
        if len(best) == 2 and scores[best[0]] - scores[best[1]] < CLOSE:
            again += 1
            alone = [logits([ids[place]])[0] for place in best]
            best = [best[int(np.argmax(alone))]]
        answers.append(words[best[0]])
    return answers, again


def test_two_passes_from_a_file_a_stream_and_towers(trained, flags, inside, data):
    out = trained("pointing_twice")
    wanted, again = twice_by_hand(out, data)
    assert 0 < again < len(wanted)
    for towers in (1, 2, 3, 4):
        asked = {"do_predict": True, "n_gpus": towers, "predict_batch_size": 2}
        code, _, err = inside(flags(out, "pointing_twice", **asked))
        assert code == 0, err
        assert (out / "predict.txt").read_text().splitlines() == wanted
    asked = {"do_predict": True, "predict_file": "-", "predict_batch_size": 3}
    with typed(data / "pointing_twice" / "dev.tsv"):
        code, answers, err = inside(flags(out, "pointing_twice", **asked))
    assert code == 0, err
    assert [json.loads(line)["value"] for line in answers.splitlines()] == wanted


def test_two_passes_by_two_processes(trained, flags, cluster, data, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(trained("pointing_twice"), out)
    asked = {"do_predict": True, "do_eval": True, "predict_batch_size": 2}
    args = flags(out, "pointing_twice", **asked)
    before = (out / "eval_results.txt").read_text()
    code, shown = cluster.run(2, args, program=pointing_script.__file__)
    assert code == 0, shown
    wanted, _ = twice_by_hand(out, data)
    assert (out / "predict.txt").read_text().splitlines() == wanted
    assert (out / "eval_results.txt").read_text() == before


@pytest.mark.parametrize("form", ["pointing_tokens", "pointing_twice"])
@pytest.mark.parametrize("export", ["export_saved_model", "export_onnx"])
def test_more_than_one_row_or_pass_is_not_exported(
    flags, inside, tmp_path, form, export
):
    asked = {"do_predict": True, export: tmp_path / "served"}
    args = flags(tmp_path / "out", form, **asked)
    assert_refused(inside(args), f"--{export}: ", "pass --export_hf")


@pytest.mark.parametrize("owners", [[1, 1], [0, 2], [0], [1, 0], [0, 0, 1]])
def test_examples_are_numbered_without_a_gap(owners):
    column = Ragged.from_rows([[1], [2]])
    with pytest.raises(ValueError, match="owners"):
        Features({"input_ids": column}, {}, np.arange(2), owners=np.array(owners))
