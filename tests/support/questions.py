"""Files of questions: small ones that a tiny model learns, and real texts."""

import json
import random
import re
import zipfile

from tests.support.paths import DATA
from tests.support.tiny import BAD, GOOD, OTHER

_SPACE = re.compile(r"\S+")


def small(count, seed, negative=0.0):
    """Contexts with one good or bad word each, which the question asks for.

    negative: the share of questions whose context has none.
    """
    rng = random.Random(seed)
    entries = []
    for number in range(count):
        words = rng.choices(OTHER.split(), k=rng.randint(3, 30))
        at = rng.randrange(len(words))
        answers = []
        if rng.random() >= negative:
            words[at] = rng.choice([*GOOD.split(), *BAD.split()])
            start = len(" ".join(words[:at])) + (at > 0)
            answers = [{"text": words[at], "answer_start": start}]
        own = {"id": f"q{seed}-{number}", "question": "it", "answers": answers}
        if negative:
            own["is_impossible"] = not answers
        entries.append({"context": " ".join(words), "qas": [own]})
    return {"version": "x", "data": [{"title": "t", "paragraphs": entries}]}


def english(count, seed):
    """Questions on film reviews: a sentence of each, and an answer of some words."""
    rng = random.Random(seed)
    path = DATA / "nltk_movie_reviews" / "movie_reviews.zip"
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".txt"))
        texts = [archive.read(name).decode() for name in names[:count]]
    paragraphs = []
    for number, text in enumerate(texts):
        context = " ".join(text.split())[: rng.randint(300, 2500)].strip()
        words = [match.span() for match in _SPACE.finditer(context)]
        first = rng.randrange(len(words))
        last = min(len(words) - 1, first + rng.randrange(5))
        start, end = words[first][0], words[last][1]
        if rng.random() < 0.2 and end - start > 4:  # inside of a word
            start, end = start + 1, end - 1
        answer = {"text": context[start:end], "answer_start": start}
        at = rng.randrange(len(words))
        asked = context[words[at][0] :][: rng.randint(10, 90)]
        own = {"id": f"e{number}", "question": asked, "answers": [answer]}
        paragraphs.append({"context": context, "qas": [own]})
    return {"data": [{"title": "", "paragraphs": paragraphs}]}


def chinese(count):
    """The first questions of cmrc2018 dev, each with an answer at its place."""
    with open(DATA / "cmrc2018" / "cmrc2018_dev.json", encoding="utf-8") as file:
        value = json.load(file)
    for paragraph in (p for entry in value["data"] for p in entry["paragraphs"]):
        kept = []
        for question in paragraph["qas"]:
            placed = [
                answer
                for answer in question["answers"]
                if answer["answer_start"] >= 0
                and paragraph["context"].startswith(
                    answer["text"], answer["answer_start"]
                )
            ]
            if placed and count:
                kept.append({**question, "answers": placed[:1]})
                count -= 1
        paragraph["qas"] = kept
    return value


def write(folder, task, parts):
    """The files of a built-in task; parts: a value for each of train, dev and test."""
    from bert_mgpu.tasks.span_qa.files import BUILTIN

    folder.mkdir(parents=True, exist_ok=True)
    for split, value in parts.items():
        text = json.dumps(value, ensure_ascii=False, indent=1)
        (folder / BUILTIN[task].file_of(split)).write_text(text, encoding="utf-8")
    return folder
