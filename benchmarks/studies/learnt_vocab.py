"""Is a vocabulary learnt from the corpus better for a model trained from nothing?

    python -m benchmarks.studies.learnt_vocab run     # two minutes a row at most
    python -m benchmarks.studies.learnt_vocab show

data_prep/learn_vocab.py learns at most 8,000 tokens from laws, beside Google's Chinese
vocabulary. Every twentieth law is held out, without the sentences that others have too.
A model of 2 layers x 128 learns masked words for equally many steps with each. A loss
is that of a token, and two vocabularies have tokens of different lengths: so it is
multiplied by the tokens that a character of the held-out text takes. Results are
appended to benchmarks/results/learnt_vocab.json.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import time

from benchmarks import corpora, runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table
from bert_mgpu.data_prep import vocabulary
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import Census

WORK = ROOT / "build" / "learnt_vocab"
VOCABULARIES = {
    "learnt": WORK / "learnt.txt",
    "published": SHARED / "models" / "zh_e5_small_charmap" / "vocab.txt",
}
CONFIG = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "hidden_act": "gelu",
    "max_position_embeddings": 128,
    "type_vocab_size": 2,
}
SIZE, SEEDS, HELD_OUT = 8000, 3, 20
LENGTH, BATCH, STEPS = 64, 32, 300
MEASURED = (
    *("vocab_size", "tokens_a_character", "unknown_percent", "masked_lm_loss"),
    *("masked_lm_accuracy", "loss_a_character", "seconds_a_step"),
)


def planned() -> list[Row]:
    return [
        {"vocabulary": name, "steps": STEPS, "seed": seed}
        for seed in range(1, SEEDS + 1)
        for name in VOCABULARIES
    ]


def _records(name: str, part: str) -> pathlib.Path:
    return WORK / f"{part}-{name}.tfrecord"


def prepare() -> None:
    """Makes the texts, the vocabulary and the records, each once."""
    WORK.mkdir(parents=True, exist_ok=True)
    if not (WORK / "dev.txt").exists():
        documents = list(corpora.laws())
        train = [lines for i, lines in enumerate(documents) if i % HELD_OUT]
        known = {line for lines in train for line in lines}
        held_out = documents[::HELD_OUT]
        unseen = [[x for x in lines if x not in known] for lines in held_out]
        for part, chosen in (("train", train), ("dev", unseen)):
            text = "\n".join("".join(f"{x}\n" for x in lines) for lines in chosen)
            (WORK / f"{part}.txt").write_text(text, encoding="utf-8")
    if not VOCABULARIES["learnt"].exists():
        learning = {"input_file": WORK / "train.txt", "vocab_size": SIZE}
        learning |= {"vocab_file": VOCABULARIES["learnt"]}
        runner.call("data_prep/learn_vocab.py", learning)
    for name, vocab_file in VOCABULARIES.items():
        for part in ("train", "dev"):
            if _records(name, part).exists():
                continue
            flags = {"input_file": WORK / f"{part}.txt", "vocab_file": vocab_file}
            flags |= {"output_file": _records(name, part), "objective": "mlm"}
            flags |= {"max_seq_length": LENGTH, "dynamic_masking": "true"}
            runner.call("data_prep/create_pretraining_data.py", flags)


def _run(row: Row) -> Row:
    name = row["vocabulary"]
    tokenizer = Tokenizer(VOCABULARIES[name])
    files = [str(WORK / "dev.txt")]
    totals = vocabulary.count(Census(tokenizer), files, None, title=name).totals
    config, output = WORK / f"{name}.json", WORK / f"output-{name}"
    config.write_text(json.dumps(CONFIG | {"vocab_size": len(tokenizer.tokens)}))
    shutil.rmtree(output, ignore_errors=True)
    common = {
        "vocab_file": VOCABULARIES[name],
        "bert_config_file": config,
        "output_dir": output,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": 10,
        "dynamic_masking": "true",
        "padding": "max_length",
        "xla": "off",  # compiling would take longer than the steps
        "cache_dir": WORK / "cache",
        "seed": row["seed"],
    }
    training = {
        "input_file": _records(name, "train"),
        "do_train": "true",
        "train_batch_size": BATCH,
        "learning_rate": 1e-3,
        "num_train_steps": row["steps"],
        "num_warmup_steps": row["steps"] // 10,
        "log_steps": 50,
    }
    began = time.time()
    runner.call("run_pretraining_mgpu.py", common | training)
    seconds = time.time() - began
    evaluation = {"input_file": _records(name, "dev"), "do_eval": "true"}
    evaluation |= {"max_eval_steps": 100_000, "eval_batch_size": 2 * BATCH}  # all
    runner.call("run_pretraining_mgpu.py", common | evaluation)
    scores = runner.scores(output)
    rate = totals.tokens / totals.characters
    measured = (
        *(len(tokenizer.tokens), round(rate, 4)),
        round(100 * totals.unknown / totals.tokens, 4),
        *(scores["masked_lm_loss"], scores["masked_lm_accuracy"]),
        *(round(scores["masked_lm_loss"] * rate, 4), round(seconds / row["steps"], 3)),
    )
    return row | dict(zip(MEASURED, measured, strict=True))


def show() -> None:
    print(
        "| vocabulary | tokens | tokens a character | [UNK] % | loss a character"
        " | masked words right % | seconds a step |\n|---|---|---|---|---|---|---|"
    )
    for name in VOCABULARIES:
        rows = [row for row in TABLE.results() if row["vocabulary"] == name]
        if not rows:
            continue
        first, losses = rows[0], [row["loss_a_character"] for row in rows]
        error = statistics.stdev(losses) / len(losses) ** 0.5 if rows[1:] else 0.0
        accuracy = statistics.fmean(row["masked_lm_accuracy"] for row in rows)
        print(
            f"| {name} | {first['vocab_size']:,} | {first['tokens_a_character']:.3f}"
            f" | {first['unknown_percent']:.3f}"
            f" | {statistics.fmean(losses):.3f} ± {error:.3f} | {100 * accuracy:.1f}"
            f" | {statistics.median(row['seconds_a_step'] for row in rows):.2f} |"
        )


TABLE = Table(RESULTS / "learnt_vocab.json", planned(), MEASURED)

if __name__ == "__main__":
    runner.main(__doc__, TABLE, _run, show, prepare)
