"""The flags that only classification has."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TEST, TRAIN, FlagTable, flag

# For the help of flags that every family has: the score that chooses the best weights
# for each "type" of task.json, and those types.
BEST_METRICS = (
    "eval_accuracy; for type multi: micro_f1, regression: eval_loss, tags: f1, qa: f1"
    " (cmrc_f1 for Chinese texts), rewrite: sari"
)
TASK_TYPES = (
    "single (one label), multi (several labels), regression (a number), tags"
    " (entities), qa (answers to questions) or rewrite (texts to rewrite)"
)

# How the phrase for the slot of an ad is read: the values of --ad_slot.
AD_SLOTS = UNKNOWN, MASKED, WORDS = "unk", "mask", "words"


@dataclasses.dataclass(frozen=True)
class ClassificationFlags(FlagTable):
    """The flags of the task types single, multi and regression."""

    # fmt: off
    group_column: str | None = flag(None, INPUT, "your own task of type single with two labels: column whose value is the same for the rows to rank against each other, such as the phrases for a slot")
    label_separator: str | None = flag(None, INPUT, "your own task of type multi: separator between the labels of an example [,]")
    ad_slot: str = flag(UNKNOWN, MODEL, "task ad: what the model reads in the slot: unk, its quotation marks as in bert-ad ([UNK] where the vocabulary lacks them); mask, a [MASK] for each; words, a [MASK] for each token of the phrase, which is ranked by its probability there, not read", identity=True, remembered=True, choices=AD_SLOTS)
    class_weights: str | None = flag(None, TRAIN, "weight of each label in the loss: balanced (rare labels count more), or a file with lines label TAB weight", identity=True)
    focal_gamma: float = flag(0.0, TRAIN, "focal loss: multiply each example's loss by (1 - probability of its label) to this power, so that hard examples count more; often 2; 0: off", identity=True, minimum=0, maximum=10)
    threshold: str | None = flag(None, TEST, "lowest probability at which a label is predicted: a number, a file with lines label TAB number, or a JSON object of them; applies to every label of type multi (0.5 unless given), or to the second of two classes (unless given, the more probable class is predicted)", kept_with_task=True)
    # fmt: on
