"""The flags that classification alone has."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TEST, TRAIN, FlagTable, flag


@dataclasses.dataclass(frozen=True)
class ClassificationFlags(FlagTable):
    """The flags of classes, of several labels and of regression."""

    # fmt: off
    label_separator: str | None = flag(None, INPUT, "your own task of type multi: separator between the labels of a row [,]")
    classifier_dropout: float | None = flag(None, MODEL, "dropout before the classifier [the config's hidden_dropout_prob]", identity=True, minimum=0, maximum=0.99)
    class_weights: str | None = flag(None, TRAIN, "weight of each label in the loss: balanced (rare labels count more), or a file of lines label TAB weight", identity=True)
    focal_gamma: float = flag(0.0, TRAIN, "focal loss: each row's loss times (1 - probability of its label) to this power, so that hard rows count more; often 2", identity=True, minimum=0, maximum=10)
    threshold: str | None = flag(None, TEST, "least probability with which a row gets a label, a number or a file of lines label TAB number: for type multi of each label, 0.5 if not given; for two labels of the second, if not given the likelier one wins")
    # fmt: on
