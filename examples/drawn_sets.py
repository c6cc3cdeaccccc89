"""Draws small sets of entities and of questions, for docs/guide.md: no real data.

    python examples/drawn_sets.py demo

Writes demo/ner/{train,dev,test}.txt, a word and its tag on each line, and
demo/questions/{train,dev,test}.json, in the form of SQuAD 2.0. A name, or the wording
of a sentence with entities, that is in one of the three is in neither of the others.
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
FIRMS += ("{last}",)
# PER, ORG and LOC stand for a name of their type.
SENTENCES = """PER moved from LOC to LOC last year. ORG opened an office in LOC.
PER , who leads ORG , did not comment. Workers of ORG went on strike in LOC.
A museum in LOC bought the letters of PER. The shares of ORG fell after PER left.
ORG beat ORG in LOC on Sunday. ORG sued PER. The road from LOC to LOC is closed , said
ORG. PER and PER met again in LOC. Nobody in LOC had heard of PER before.
According to ORG , rents in LOC will rise. Next to PER sat the lawyers of ORG.
At ORG , PER was replaced by PER. PER joined ORG after three years in LOC"""
# A sentence about somebody, and what may be asked: the answer is the value of the key.
FACTS = (
    ("{name} was born in {LOC} in {year}. ", "LOC", "Where was {name} born?"),
    ("{name} was a {job} until {year}. ", "job", "What was the job of {name}?"),
    ("{name} moved to {LOC} in {year}. ", "year", "When did {name} move?"),
    ("For some years {name} worked for {ORG}. ", "ORG", "Who employed {name}?"),
    ("Later {name} married {PER}, a {job}. ", "PER", "Whom did {name} marry?"),
    ("A {job}, {PER}, taught {name} to swim. ", "PER", "Who taught {name}?"),
)
JOBS = ("painter", "nurse", "pilot", "baker", "judge", "teacher", "surgeon")
# Of a set: its sentences, its contexts, and its fifths of the lists above.
SETS = {"train": (300, 200, (0, 1, 2)), "dev": (100, 30, (3,)), "test": (100, 30, (4,))}


class Drawn:
    def __init__(self, label: str, fifths: tuple[int, ...]):
        self.label, self.rng = label, random.Random(label)  # the same in every call
        lists = (FIRST.split(), LAST.split(), PLACES.split(), SENTENCES.split("."))
        own = [[one for n, one in enumerate(x) if n % 5 in fifths] for x in lists]
        *self.parts, self.sentences = own

    def names(self) -> dict[str, str]:
        """A name of each type."""
        first, last, place = map(self.rng.choice, self.parts)
        firm = self.rng.choice(FIRMS).format(last=last, place=place)
        return {"PER": f"{first} {last}", "ORG": firm, "LOC": place}

    def sentence(self) -> str:
        lines = []
        for word in (*self.rng.choice(self.sentences).split(), "."):
            name = self.names().get(word, "").split()
            if word == "PER" and self.rng.random() < 0.3:
                name = name[1:]  # the surname alone
            lines += [f"{one} {'I' if n else 'B'}-{word}" for n, one in enumerate(name)]
            lines += [] if name else [f"{word} O"]
        return "\n".join(lines) + "\n\n"

    def paragraph(self, number: int) -> dict[str, object]:
        """Facts on a person, or two; what one question of seven asks is not told."""
        rng, context, asked = self.rng, "", []
        persons = {self.names()["PER"] for _ in range(rng.choice((1, 1, 1, 2)))}
        facts = [(x, *fact) for x in sorted(persons) for fact in rng.sample(FACTS, 5)]
        rng.shuffle(facts)
        for name, told, key, question in facts:
            values = {"name": name, "PER": name, "job": rng.choice(JOBS)}
            while values["PER"] == name:
                values |= self.names()
            values["year"] = str(rng.randint(1900, 1999))
            told, answers = told.format(**values), []
            if rng.random() > 1 / 7:
                start = len(context) + told.rindex(values[key])
                answers = [{"text": values[key], "answer_start": start}]
                context += told
            row = {"question": question.format(name=name), "answers": answers}
            row |= {"is_impossible": not answers}
            asked.append(row | {"id": f"{self.label}-{number}-{len(asked)}"})
        return {"context": context.strip(), "qas": asked}


def main(directory: str) -> None:
    for label, (sentences, contexts, fifths) in SETS.items():
        drawn = Drawn(label, fifths)
        tagged = [drawn.sentence() for _ in range(sentences)]
        told = [drawn.paragraph(number) for number in range(contexts)]
        squad = {"version": "v2.0", "data": [{"title": label, "paragraphs": told}]}
        files = {f"ner/{label}.txt": "".join(tagged)}
        files[f"questions/{label}.json"] = json.dumps(squad, indent=1) + "\n"
        for file, text in files.items():
            path = pathlib.Path(directory, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(str(__doc__).strip())
    main(sys.argv[1])
