"""End to end: rows x batch x towers never change the predictions."""

import itertools
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.model import bert, heads
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.tiny import MRPC_HEADER

ROWS, BATCHES, TOWERS = (1, 2, 7, 13, 40), (1, 4, 9), (1, 3)  # 30 settings


@pytest.fixture(scope="module")
def model(trained, tmp_path_factory):
    return shutil.copytree(trained(), tmp_path_factory.mktemp("grid") / "model")


def lines_to_predict(count):
    """Blank and ragged lines among them: each gives one prediction."""
    words = ["sun joy", "rain loss", "", "the of a", "好 新"]
    rows = [
        f"?\t1\t2\t{' '.join([words[i % 5]] * (1 + i % 3))}\t{words[i % 3]}"
        for i in range(count)
    ]
    return "\n".join([MRPC_HEADER, *rows]) + "\n"


def one_by_one(model, path):
    """Probabilities of each row, alone and without padding: [rows, 2]."""
    params = google_read.read(model)
    config = BertConfig.from_json_file(model / "bert_config.json")
    tokenizer = Tokenizer(model / "vocab.txt")
    shares = []
    for line in path.read_text().split("\n")[1:-1]:
        _, _, _, a, b = line.split("\t")
        first = [tokenizer.cls_id, *tokenizer.ids(a)[:13], tokenizer.sep_id]
        second = tokenizer.ids(b)
        assert len(first) + len(second) + 1 <= 16  # nothing to truncate
        second += [tokenizer.sep_id] * bool(second)
        ids = np.array([first + second], np.int32)
        segments = np.array([[0] * len(first) + [1] * len(second)], np.int32)
        row = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": segments,
        }
        first = bert.encode(params, config, row)[-1][:, 0]
        logits = heads.classification_logits(
            params, bert.pool(params, first), 0.0
        ).numpy()
        shares.append(np.exp(logits[0]) / np.exp(logits[0]).sum())
    return np.array(shares)


@pytest.mark.parametrize("rows", [7, 40, *rarely(1, 2, 13)])
def test_predictions_are_those_of_single_rows(tiny, model, tmp_path, inside, rows):
    path = tmp_path / "new.tsv"
    path.write_text(lines_to_predict(rows))
    wanted = one_by_one(model, path)
    for batch, towers in itertools.product(BATCHES, TOWERS):
        args = tiny.flags(
            model,
            vocab_file=None,
            bert_config_file=None,
            init_checkpoint=None,
            do_predict=True,
            predict_file=path,
            predict_batch_size=batch,
            n_gpus=towers,
            cpu_devices=min(towers, 2),
        )
        code, _, err = inside(args)
        assert code == 0, err
        classes = (model / "predict.txt").read_text().splitlines()
        shares = np.loadtxt(model / "test_results.tsv", ndmin=2)
        assert len(classes) == len(shares) == rows
        assert [str(c) for c in shares.argmax(-1)] == classes
        np.testing.assert_allclose(shares, wanted, atol=1e-5)
