"""Model inputs of every built-in task, beside Google's convert_single_example."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.data import packing, pipeline
from bert_mgpu.tasks.classification import rows as rows_lib
from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.classification.reader import read_label
from bert_mgpu.tasks.reader import read_examples
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.paths import REFERENCE
from tests.tasks.classification.test_builtin_formats import CASES

DRIVER = REFERENCE / "google_features.py"
LENGTH = 9  # so short that many rows are truncated
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", '"', "“", "”", ",", ".", "，"),
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"),
    *("quoted", "one", "two", "th", "##ree", "很", "好", "吃", "的", "标", "题"),
    *("体", "育", "总", "决", "赛", "轿", "车", "从", "产", "品"),
]


@pytest.mark.parametrize("length", [LENGTH, *rarely(64)])
def test_inputs_are_googles(tmp_path, length):
    if importlib.util.find_spec("bert") is None:
        pytest.skip("Google's code is not here: make test installs bert-tensorflow")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in VOCAB), encoding="utf-8")
    tokenizer = Tokenizer(vocab)
    labels = sorted({label for task in BUILTIN.values() for label in task.labels})
    examples = []
    for number, (name, split, text, labelled, _) in enumerate(CASES):
        path = tmp_path / f"file{number}"
        path.write_bytes(text.encode())
        with_label = labelled is not None
        examples += read_examples(
            BUILTIN[name], path, split, label=read_label, with_label=with_label
        )
    assert len(examples) > 35
    rows = [(e.text_a, e.text_b, e.label or labels[0]) for e in examples]
    request = {"vocab_file": str(vocab), "max_seq_length": length, "labels": labels}
    done = subprocess.run(
        [sys.executable, DRIVER],
        input=json.dumps(request | {"rows": rows}),
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = json.loads(done.stdout)
    features = rows_lib.featurise(
        examples,
        tokenizer,
        labels,
        max_seq_length=length,
        truncation="head",
        head_tokens=0,
    )
    placement = packing.one_per_row(np.arange(len(examples)), 1, length)
    batch = pipeline.collate(features, placement)
    for name in ("input_ids", "input_mask", "segment_ids"):
        assert batch[name][0].tolist() == [row[name] for row in wanted], name
    assert batch["label_ids"][0].tolist() == [row["label_id"] for row in wanted]
    assert features.lines.tolist() == [example.line for example in examples]


@pytest.mark.parametrize(
    ("how", "head_tokens", "kept"),
    [
        ("head", 0, "a b c d e f g"),
        ("tail", 0, "l m n o p q r"),
        ("head_tail", 3, "a b c o p q r"),
    ],
)
def test_truncation_of_long_texts(tmp_path, how, head_tokens, kept):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in VOCAB), encoding="utf-8")
    tokenizer = Tokenizer(vocab)
    text = " ".join("abcdefghijklmnopqr")
    examples = [Example("x", text), Example("y", "a b")]
    features = rows_lib.featurise(
        examples,
        tokenizer,
        ["0"],
        max_seq_length=LENGTH,
        truncation=how,
        head_tokens=head_tokens,
    )
    row = [tokenizer.tokens[index] for index in features.ragged["input_ids"].row(0)]
    assert row == ["[CLS]", *kept.split(), "[SEP]"]
    assert features.notes["truncated"] == 1 and features.notes["rows"] == 2
    assert features.notes["length_percentiles"]["100"] == 20  # before truncation
