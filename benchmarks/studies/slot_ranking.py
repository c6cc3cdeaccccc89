"""Which of ten phrases stood in an ad: ranking after three kinds of pretraining.

    python -m benchmarks.studies.slot_ranking run    # the missing rows
    python -m benchmarks.studies.slot_ranking show   # the table of what is there

Rows of the ads of advertisegen and taodescribe by make_rewrite_data.py, with three
phrases of about the same length of other ads for each segment; scored on the 815 of
2,000 groups of their dev sets whose ads have at most 100 characters, each of one right
phrase and nine of other products. (Counting the bigrams of train's ads has a hit@1 of
37.5 % on all 2,000, and about 41 % are to be expected on these, of which more are of
the easier set.) Weights of 12 layers x 384. "unk" reads the slot as bert-ad does,
"mask" as [MASK], and "words" ranks by the masked-word head; the plain weights have
none, and begin with "mask". "masked words" and "infill" begin with weights pretrained
on the 7,989 ads of those rows, or on rows of their infill.txt, for the same number of
steps, and "masked words, then spans" goes on from the former, with spans of words
masked, for 1,200 steps or half of them. Rows of infill say whether a phrase belongs in
the ad, so that "infill" has seen labels like those of ranking, on 32,000 rows. A
training takes an epoch of 5,000 rows; 0 rows are no training, but what pretraining
alone has taught. "one by one" needs no ranker: the mean log p of the phrase's tokens by
transformers, each masked alone in the whole ad. ± is the standard error over seeds. A
row takes ten minutes, each pretraining half an hour or more on two idle cores of AMD
EPYC that multiply in bfloat16. It may be killed at any time: the same command goes on.
Results are appended to benchmarks/results/slot_ranking.json. Needs ../shared."""

from __future__ import annotations

import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table
from benchmarks.studies import slot_likelihood

WORK = ROOT / "build" / "slot_ranking"
DATA = SHARED / "data" / "rewrite_data"
RANKER = WORK / "ranker"
LENGTH = 128
TRAINING = {
    "train_batch_size": 32,
    "eval_batch_size": 64,
    "learning_rate": 1e-4,
    "optimizer": "adamw",
    "precision": "bfloat16",
    "hidden_act": "gelu_erf",  # as it was trained
    "num_train_epochs": 1,
    "save_checkpoints_steps": 25,
    "keep_checkpoint_max": 1,
}
_RATE = 2e-5  # of "words": at 1e-4, it forgets what it begins with
_NEW_WEIGHTS = 0.15  # standard deviation, where they are random
HEAD_STEPS, STEPS = 150, 1000  # of pretraining, of 32 rows
_RECORDS = 32 * STEPS  # each is read about once
FEW = 5000  # rows of a training; 0: what pretraining has taught it
_LONGEST = 100  # characters of an ad, so that a row can hold it with its phrase
WORDS, INFILL, ONE_BY_ONE = "masked words", "infill", "one by one"
MORE, HALF = "masked words, then spans", "masked words, then half as many spans"
MORE_STEPS = {MORE: 1200, HALF: 600}
# Folders of weights.
STARTS = {WORDS: "words", "plain": "model", INFILL: "infill"}
STARTS |= {MORE: "spans", HALF: "half"}
SCORES = ("hit_at_1", "hit_at_3", "mrr")


def planned() -> list[Row]:
    kinds = [
        (reads, begins, rows, seed)
        for seed in (1, 2, 3)
        for reads, begins, rows in (
            ("words", WORDS, FEW),
            ("words", INFILL, FEW),
            ("mask", "plain", FEW),
        )
    ]
    kinds += [(reads, WORDS, FEW, 1) for reads in ("mask", "unk")]
    kinds += [(reads, INFILL, FEW, 1) for reads in ("mask", "unk")]
    kinds += [("words", begins, 0, 1) for begins in (WORDS, INFILL, MORE, HALF)]
    kinds.append((ONE_BY_ONE, WORDS, 0, 1))
    return [
        {"reads": reads, "begins": begins, "rows": rows, "seed": seed}
        for reads, begins, rows, seed in kinds
    ]


TABLE = Table(RESULTS / "slot_ranking.json", planned(), (*SCORES, "seconds"))


def ads() -> Iterator[str]:
    with (DATA / "advertisegen" / "train.jsonl").open(encoding="utf-8") as file:
        yield from (json.loads(line)["summary"] for line in file)
    with (DATA / "taodescribe" / "train.tsv").open(encoding="utf-8") as file:
        yield from (line.rstrip("\n").split("\t")[-1] for line in file)


def groups() -> list[dict[str, Any]]:
    """The groups: an ad, its phrase and where it starts, and nine other phrases."""
    with (DATA / "slots" / "dev.jsonl").open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [group for group in found if len(group["ad"]) <= _LONGEST]


def with_slot(group: dict[str, Any], slot: str) -> str:
    """The ad of a group, with `slot` in place of its phrase."""
    ad, start = group["ad"], group["start"]
    return ad[:start] + slot + ad[start + len(group["phrase"]) :]


def ranking_rows(group: dict[str, Any], right: str) -> Iterator[str]:
    """Rows in bert-ad's format: flag, index (not read), phrase, ad with the slot.

    The slot is as long as the phrase beside it, as in the training rows.
    """
    for flag, own in ((1, right), *((0, each) for each in group["negatives"])):
        blanked = with_slot(group, "“" * len(own))
        yield f"{flag}\t0\t{own}\t{blanked}\n"


def prepare() -> None:
    """Makes rows and weights below build/slot_ranking."""
    model, data = WORK / "model", WORK / "data"
    if not (model / "vocab.txt").exists():  # which is written last
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, model], check=True)
    if not (data / "eval_0620.txt").exists():
        data.mkdir(parents=True, exist_ok=True)
        lines = (" ".join(ad.split()) for ad in ads())
        (WORK / "ads.txt").write_text("".join(f"{ad}\n" for ad in lines), "utf-8")
        made: dict[str, Any] = {"negatives": "length:3", "dev_share": 0.001}
        made |= {"input_file": WORK / "ads.txt", "output_dir": WORK / "made"}
        made["max_segment"] = 24
        runner.call("data_prep/make_rewrite_data.py", made)
        shutil.copy(WORK / "made" / "train_0620.txt", data)
        rows = (row for each in groups() for row in ranking_rows(each, each["phrase"]))
        (data / "eval.new").write_text("".join(rows), "utf-8")
        (data / "eval.new").rename(data / "eval_0620.txt")


def pretraining_rows(begins: str) -> pathlib.Path:
    """The TFRecord file of masked words or of infill, made if it is missing."""
    records = WORK / f"{STARTS[begins]}.tfrecord"
    if not records.exists():
        infills, dynamic = begins == INFILL, begins in MORE_STEPS
        texts = WORK / "made" / "infill.txt" if infills else WORK / "ads.txt"
        rows = texts.read_text("utf-8").splitlines(keepends=True)
        taken = random.Random(1).sample(rows, min(len(rows), _RECORDS))
        text = records.with_suffix(".txt")
        text.write_text("".join(taken), "utf-8")
        made: dict[str, Any] = {"input_file": text, "output_file": records}
        made |= {"objective": "infill" if infills else "mlm"}
        made |= {"vocab_file": WORK / "model" / "vocab.txt"}
        copies = 1 if dynamic else math.ceil(_RECORDS / len(taken))
        made |= {"dupe_factor": copies, "dynamic_masking": dynamic}
        runner.call("data_prep/create_pretraining_data.py", made)
    return records


def weights(begins: str) -> pathlib.Path:
    """The folder of the weights that a row begins with, pretrained if need be."""
    model, head = WORK / "model", WORK / "head"
    if begins == "plain":
        return model
    first = {"freeze": "^bert/", "learning_rate": 1e-3, "num_train_steps": HEAD_STEPS}
    pretrain(pretraining_rows(WORDS), model, head, first)  # all begin with it
    # At 1e-4, 600 steps of infill learnt neither its words nor its sentences.
    second: dict[str, Any] = {"learning_rate": 4e-4, "num_train_steps": STEPS}
    if begins in MORE_STEPS:
        head = weights(WORDS)
        second = {"learning_rate": 3e-4, "num_train_steps": MORE_STEPS[begins]}
        # As in a slot, where no neighbour of a masked word is left.
        second |= {"dynamic_masking": True, "masking": "span"}
        second |= {"masked_lm_prob": 0.25, "max_predictions_per_seq": 32}
        second["bert_config_file"] = model / "bert_config.json"  # with dropout
    pretrain(pretraining_rows(begins), head, WORK / STARTS[begins], second)
    return WORK / STARTS[begins]


def config_file() -> pathlib.Path:
    """The model's config without dropout, and with larger new weights.

    The last vectors of these sentence encoders are short (a norm of 2 to 5, where
    BERT's is near 15), and hardly differ at [CLS]: with a new pooler of the usual 0.02,
    40 epochs of 128 rows taught the ranker nothing, with 0.15 it knew them after eight.
    """
    path = WORK / "config.json"
    return runner.config_with(
        WORK / "model", path, dropout=0.0, initializer_range=_NEW_WEIGHTS
    )


def pretrain(records: Any, start: Any, output: Any, flags: dict[str, Any]) -> None:
    """Pretrains; continues where it was killed."""
    if (output / f"model.ckpt-{flags['num_train_steps']}.index").exists():
        return
    own = {name: value for name, value in TRAINING.items() if "epochs" not in name}
    own |= {"input_file": records, "init_checkpoint": start, "output_dir": output}
    own |= {"do_train": True, "max_seq_length": LENGTH, "padding": "pack"}
    own |= {"bert_config_file": config_file(), **flags}
    own["num_warmup_steps"] = flags["num_train_steps"] // 10
    runner.call("run_pretraining_mgpu.py", own)


def one_by_one(start: pathlib.Path) -> dict[str, float]:
    """The scores of phrases by what is most likely where they stand."""
    slots = []
    for group in groups():
        before, after = with_slot(group, "\n").split("\n")
        phrases = [group["phrase"], *group["negatives"]]
        slots.append(slot_likelihood.Slot(before, after, phrases))
    ranks = slot_likelihood.ranks_of_first(slots, start, WORK / "exported")
    hits = {f"hit_at_{k}": float((ranks <= k).mean()) for k in (1, 3)}
    return hits | {"mrr": float((1 / ranks).mean())}


def work(row: Row) -> Row:
    """The scores of a row of the plan."""
    if row["reads"] == ONE_BY_ONE:
        began, found = time.time(), one_by_one(weights(row["begins"]))
        own = {n: round(found[n], 4) for n in SCORES}
        return row | own | {"seconds": round(time.time() - began)}
    output, start = WORK / "runs" / runner.name_of(row), weights(row["begins"])
    began, goes_on = time.time(), output.exists()
    flags: dict[str, Any] = TRAINING | {
        "task_name": "ad",
        "data_dir": WORK / "data",
        "init_checkpoint": start,
        "bert_config_file": config_file(),
        "output_dir": output,
        "do_train": True,
        "do_eval": True,
        "max_seq_length": LENGTH,
        "max_train_examples": row["rows"] or FEW,
        "ad_slot": row["reads"],
        "seed": row["seed"],
    }
    if row["reads"] == "words":
        flags["learning_rate"] = _RATE
    if not row["rows"]:
        flags |= {"max_train_steps": 0}
    runner.call("run_classifier_mgpu.py", flags)
    found, seconds = runner.scores(output), round(time.time() - began)
    if row["begins"] == HALF:  # slot_filling judges its fills by this ranker
        shutil.copytree(output, RANKER, dirs_exist_ok=True)
    shutil.rmtree(output)
    own = {n: round(found[n], 4) for n in SCORES}
    return row | own | {"seconds": None if goes_on else seconds}


def table() -> Iterator[str]:
    yield f"| rows | slot | begins with | {' | '.join(SCORES)} | seeds |"
    yield f"|{'---|' * (len(SCORES) + 4)}"
    kinds: dict[tuple[Any, ...], list[Row]] = {}
    for result in TABLE.results():
        key = result["rows"], result["reads"], result["begins"]
        kinds.setdefault(key, []).append(result)
    for key, found in kinds.items():
        cells = []
        for name in SCORES:
            values = [result[name] for result in found]
            cells.append(runner.mean_and_error(values, 4))
        yield f"| {' | '.join(map(str, (*key, *cells, len(found))))} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
