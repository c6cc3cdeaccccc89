"""Memory and time to read as many questions as SQuAD has.

    python -m benchmarks.studies.many_questions

130,000 questions on 19,000 contexts, in SQuAD's format, of random words from a
vocabulary. They are read, tokenized and cached as in a run, then read from the cache.
Each part is a process of its own; peaks are relative to its memory before reading.
Writes benchmarks/results/many_questions.json. Needs ../shared (a vocabulary).
"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.harness import RESULTS, SHARED, machine, resident
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.data import cache
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs import finetune

CONTEXTS, QUESTIONS = 19_000, 130_000
VOCAB = SHARED / "data" / "vocab" / "uncased_vocab.txt"
LENGTH = 384


def draw(path: pathlib.Path) -> None:
    """Writes a file of random questions in SQuAD's format."""
    rng, questions = random.Random(1), 0
    lines = VOCAB.read_text(encoding="utf-8").splitlines()
    words = [word for word in lines if word.isalpha()]
    paragraphs = []
    for number in range(CONTEXTS):
        own = [rng.choice(words) for _ in range(rng.randint(60, 170))]
        asked = []
        for _ in range(-(-(QUESTIONS - questions) // (CONTEXTS - number))):
            first = rng.randrange(len(own))
            start = len(" ".join(own[:first])) + (first > 0)
            answer = " ".join(own[first : first + rng.randint(1, 4)])
            text = " ".join(rng.choice(words) for _ in range(10))
            asked.append(
                {
                    "id": f"{questions:024x}",
                    "question": f"{text}?",
                    "answers": [{"text": answer, "answer_start": start}],
                }
            )
            questions += 1
        paragraphs.append({"context": " ".join(own), "qas": asked})
    path.write_text(json.dumps({"data": [{"title": "x", "paragraphs": paragraphs}]}))


def read(folder: pathlib.Path) -> dict[str, float]:
    """Reads the set, from the file or the cache; its size, the time and peak memory."""
    model = folder / "model"
    config = FinetuneConfig(
        task_name="squad",
        data_dir=str(folder),
        vocab_file=str(VOCAB),
        bert_config_file=str(model),
        do_train=True,
        max_seq_length=LENGTH,
    )
    before, began = resident()[0], time.perf_counter()
    run = finetune.prepare(config, folder / "out", single_process(1, ["CPU:0"]))
    rows, _ = run.data.read("train")
    seconds = time.perf_counter() - began
    _, peak = resident()
    tokens = len(rows.spliced["input_ids"].values)
    held = sum(tensor.nbytes for tensor in cache.to_tensors(rows).values())
    return {
        "rows": len(rows),
        "tokens": tokens,
        "tokens_of_rows": int(np.sum(rows.lengths)),
        "bytes": held,
        "seconds": round(seconds, 1),
        "peak_mb": round(peak - before),
    }


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(read(pathlib.Path(sys.argv[1]))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        draw(folder / "train-v1.1.json")
        config = {"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 1}
        config |= {"num_attention_heads": 2, "intermediate_size": 64}
        config |= {"max_position_embeddings": 512, "type_vocab_size": 2}
        (folder / "model").write_text(json.dumps({**config, "hidden_act": "gelu"}))
        found = {"machine": machine()}
        for name in ("file", "cache"):
            command = [sys.executable, "-m", __spec__.name, scratch]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(name, found[name])
    path = RESULTS / "many_questions.json"
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
