"""Draws small sets of entities and of questions, for docs/guide.md: no real data.

    python examples/drawn_sets.py demo

Writes demo/ner/{train,dev,test}.txt, a word and its tag on each line, and
demo/questions/{train,dev,test}.json, in the form of SQuAD 2.0. The names of dev and of
test stand in no other file. The seed is fixed: every call draws the same.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys

FIRST = """Ada Anton Boris Carla Clara David Edith Emil Frank Greta Hanna Hugo Irene
Jonas Karin Laura Leo Maria Martin Nora Olga Oscar Paula Rita Simon Victor Walter"""
LAST = """Abel Archer Brandt Carter Castell Dorn Ekman Falk Fisher Grant Holm Jensen
Keller Lindberg Marsh Moreau Novak Olsen Porter Price Rossi Roth Silva Turner Vogel"""
PLACES = """Aarhus Antwerp Basel Bergen Boston Bristol Cologne Cork Dover Dresden Geneva
Genoa Granada Leeds Lisbon Lyon Malmo Milan Oslo Porto Riga Salzburg Toledo Zurich"""
FIRMS = ("{last} & Sons", "{last} Motors", "Bank of {place}", "{place} United")
FIRMS += ("University of {place}", "{place} Post", "{last}")
# PER, ORG and LOC stand for a name of their type.
SENTENCES = """PER moved from LOC to LOC last year .
ORG opened an office in LOC .
PER , who leads ORG , did not comment .
Workers of ORG went on strike in LOC .
A museum in LOC bought the letters of PER .
The shares of ORG fell after PER left .
ORG beat ORG in LOC on Sunday .
ORG sued PER .
The road from LOC to LOC is closed , said ORG .
PER and PER met again in LOC .
Nobody in LOC had heard of PER before .
According to ORG , rents in LOC will rise .
Next to PER sat the lawyers of ORG .
At ORG , PER was replaced by PER .
ORG sold its share of ORG to PER .
PER told ORG that the bridge in LOC was unsafe .
ORG and ORG share a building near LOC .
Critics of PER say that LOC deserves better .
PER joined ORG after three years in LOC .
LOC was quiet when PER arrived .""".splitlines()
# A sentence on somebody, and what may be asked: the answer is the value of the key.
FACTS = (
    ("{name} was born in {place} in {year}.", "place", "Where was {name} born?"),
    ("{name} was a {job} until {year}.", "job", "What was the job of {name}?"),
    ("{name} moved to {place} in {year}.", "year", "When did {name} move?"),
    ("For some years {name} worked for {firm}.", "firm", "Who employed {name}?"),
    ("Later {name} married {other}, a {job}.", "other", "Whom did {name} marry?"),
    ("A {job}, {other}, taught {name} to swim.", "other", "Who taught {name}?"),
)
JOBS = ("painter", "nurse", "pilot", "baker", "judge", "teacher", "surgeon")
# Of a set: its sentences, its contexts, and its fifths of the names and the sentences.
SETS = {"train": (300, 200, {0, 1, 2}), "dev": (100, 40, {3}), "test": (100, 40, {4})}
Fifths = set[int]


def names(rng: random.Random, fifths: Fifths) -> dict[str, str]:
    """A name of each type."""
    lists = (enumerate(text.split()) for text in (FIRST, LAST, PLACES))
    own = [[name for n, name in one if n % 5 in fifths] for one in lists]
    first, last, place = map(rng.choice, own)
    firm = rng.choice(FIRMS).format(last=last, place=place)
    person = f"{first} {last}" if rng.random() < 0.7 else last
    return {"PER": person, "ORG": firm, "LOC": place}


def sentence(rng: random.Random, fifths: Fifths) -> str:
    lines = []
    words = [one for n, one in enumerate(SENTENCES) if n % 5 in fifths]
    for word in rng.choice(words).split():
        name = names(rng, fifths).get(word, "").split()
        lines += [f"{one} {'I' if n else 'B'}-{word}" for n, one in enumerate(name)]
        lines += [] if name else [f"{word} O"]
    return "\n".join(lines) + "\n\n"


def paragraph(rng: random.Random, label: str, fifths: Fifths) -> dict[str, object]:
    """Four facts on one person, or on each of two; one question of five has no answer."""
    persons = {names(rng, fifths)["PER"] for _ in range(rng.randint(1, 2))}
    facts = [(own, *fact) for own in sorted(persons) for fact in rng.sample(FACTS, 4)]
    rng.shuffle(facts)
    context, questions = "", []
    for number, (name, told, key, asked) in enumerate(facts):
        drawn, year = names(rng, fifths), str(rng.randint(1900, 1999))
        values = {"name": name, "job": rng.choice(JOBS), "year": year}
        values |= {"place": drawn["LOC"], "firm": drawn["ORG"], "other": drawn["PER"]}
        question = {"id": f"{label}-{number}", "question": asked.format(name=name)}
        question |= {"answers": [], "is_impossible": rng.random() < 0.2}
        if not question["is_impossible"]:
            told = told.format(**values)
            start = len(context) + told.rindex(values[key])
            question["answers"] = [{"text": values[key], "answer_start": start}]
            context += told + " "
        questions.append(question)
    return {"context": context.strip(), "qas": questions}


def main(directory: str) -> None:
    for name, (sentences, contexts, fifths) in SETS.items():
        rng = random.Random(name)
        tagged = [sentence(rng, fifths) for _ in range(sentences)]
        told = [paragraph(rng, f"{name}-{n}", fifths) for n in range(contexts)]
        asked = {"version": "v2.0", "data": [{"title": name, "paragraphs": told}]}
        texts = {f"ner/{name}.txt": "".join(tagged)}
        texts[f"questions/{name}.json"] = json.dumps(asked, indent=1) + "\n"
        for file, text in texts.items():
            path = pathlib.Path(directory, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(str(__doc__).strip())
    main(sys.argv[1])
