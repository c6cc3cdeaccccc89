"""Sentences with entities, made of the words of the tiny model."""

import json

from bert_mgpu.tasks.tagging.bio import Span
from tests.support.tiny import BAD, GOOD, rows

COUNTS = {"train": 48, "dev": 21, "test": 9}


class Counted(Span):
    """A span that counts how often the end of any of them is read."""

    reads = 0

    @property
    def end(self):
        Counted.reads += 1
        return self[1]


def sentences(count, seed):
    """Lists of (word, tag): good words are of type GOOD, a pair of them is one."""
    for _, text, more in rows(count, seed):
        tags, before = [], "O"
        words = f"{text} {more}".split(" ")
        for word in words:
            tag = "O"
            if word in GOOD.split(" "):
                tag = "I-GOOD" if before.endswith("GOOD") else "B-GOOD"
            elif word in BAD.split(" "):
                tag = "B-BAD"
            tags.append(tag)
            before = tag
        yield [*zip(words, tags, strict=True)]


def conll(lines):
    return "".join(
        "".join(f"{word} {tag}\n" for word, tag in line) + "\n" for line in lines
    )


def spans(lines):
    """The same as JSON, the words with blanks between them."""
    for line in lines:
        text = " ".join(word for word, _ in line)
        label, start = [], 0
        for word, tag in line:
            end = start + len(word)
            if tag.startswith("B-"):
                label.append([start, end, tag[2:]])
            elif tag.startswith("I-"):
                label[-1][1] = end
            start = end + 1
        yield json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n"


FORMS = {
    "ner": ("txt", conll),
    "cluener": ("json", lambda lines: "".join(spans(lines))),
}


def write_task(folder, task, counts=COUNTS):
    """The files of a built-in task, in a folder of its own."""
    folder.mkdir(parents=True)
    end, form = FORMS[task]
    for seed, (split, count) in enumerate(counts.items()):
        (folder / f"{split}.{end}").write_text(form([*sentences(count, seed)]))
