"""Files of groups of rows to rank: an own task with a column of groups, and ads."""

import json
import random

from tests.support.tiny import BAD, GOOD, OTHER

TASK_JSON = {"train": "train.tsv", "dev": "dev.tsv"}
TASK_JSON |= {"label": "y", "text_a": "text", "group": "about"}


def small(groups, seed):
    """(group, label, text): 2 to 5 rows each, the last with the text of the first.

    Rows of the same text tie. Of every fifth group all labels are 0.
    """
    rng = random.Random(seed)
    found = []
    for group in range(groups):
        right = rng.randrange(4)
        texts = []
        for number in range(rng.randint(1, 4)):
            good = rng.random() < (0.9 if number == right else 0.2)
            words = rng.choices((GOOD if good else BAD).split(), k=2)
            words += rng.choices(OTHER.split(), k=rng.randint(0, 10))
            texts.append(" ".join(words))
        texts.append(texts[0])
        for number, text in enumerate(texts):
            label = int(number == right and group % 5 > 0)
            found.append((f"q{group}", label, text))
    return found


def write(folder, parts, **changed):
    """parts: name of a split -> its rows, as of `small`. changed: keys of task.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        lines = [f"{group}\t{('no', 'yes')[y]}\t{text}" for group, y, text in rows]
        text = "\n".join(["about\ty\ttext", *lines, ""])
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    (folder / "task.json").write_text(json.dumps(TASK_JSON | changed))


def write_ads(folder):
    """Ads of good phrases, of which one is left out; among real quotes, too."""
    rng = random.Random(3)
    folder.mkdir(parents=True)
    for name, count in (("train_0620.txt", 12), ("eval_0620.txt", 6)):
        lines = []
        for number in range(count):
            good, bad = GOOD.split(), BAD.split()
            ad = f"the “{rng.choice(good)}” of {number}，{{}}，" + rng.choice(good)
            for label, words in ((1, good), (0, bad), (0, bad)):
                phrase = " ".join(rng.sample(words, rng.randint(1, 3)))
                slot = "“" * len(phrase)
                lines.append(f"{label}\t7\t{phrase}\t{ad.format(slot)}")
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")


def products(count, seed):
    """(product, ad) of two or three phrases of good words, or of bad ones."""
    rng = random.Random(seed)
    for number in range(count):
        kind = rng.choice((GOOD, BAD)).split()
        said = [" ".join(rng.sample(kind, rng.randint(1, 2))) for _ in range(2)]
        yield kind[0], "，".join([f"{number} of {kind[0]}", *said])
