"""Generates small sets from templates, for docs/guide.md and the examples.

    python examples/drawn_sets.py demo

Writes demo/ner/{train,dev,test}.txt, a word and its tag on each line;
demo/questions/{train,dev,test}.json, in the format of SQuAD 2.0; and
demo/dialogues/{train,dev,test}.tsv: what was said before, an utterance that needs it,
and the same with all its names. A name, or the wording of a sentence with entities,
that is in one of the three is in neither of the others. demo/ads/ads.tsv has products
with an ad for each, demo/ads/new.txt ads of other makers.
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
# A sentence about a person, the key whose value is the answer, and the question.
FACTS = (
    ("{name} was born in {LOC} in {year}. ", "LOC", "Where was {name} born?"),
    ("{name} was a {job} until {year}. ", "job", "What was the job of {name}?"),
    ("{name} moved to {LOC} in {year}. ", "year", "When did {name} move?"),
    ("For some years {name} worked for {ORG}. ", "ORG", "Who employed {name}?"),
    ("Later {name} married {PER}, a {job}. ", "PER", "Whom did {name} marry?"),
    ("A {job}, {PER}, taught {name} to swim. ", "PER", "Who taught {name}?"),
)
JOBS = ("painter", "nurse", "pilot", "baker", "judge", "teacher", "surgeon")
# An utterance, the one that follows, and what that has to become: the same for somebody
# who did not hear the first, in words of the two. Some are complete as they are.
WHERE, LEFT = "Where is PER now? In LOC.", "PER has left ORG."
OPENED, WEATHER = "ORG has opened an office in LOC.", "What is the weather like in LOC?"
DIALOGUES = (
    (WHERE, "Will they like it there?", "Will PER like it in LOC?"),
    (WHERE, "Do you know anyone there?", "Do you know anyone in LOC?"),
    (LEFT, "Did they say why?", "Did PER say why?"),
    (LEFT, "Who will replace them?", "Who will replace PER?"),
    (OPENED, "How many people work there?", "How many people work in LOC?"),
    (OPENED, "Will they hire people?", "Will ORG hire people?"),
    ("Does PER still lead ORG?", "Since when?", "Since when does PER lead ORG?"),
    (
        "Have you heard of ORG?",
        "What do you think of them?",
        "What do you think of ORG?",
    ),
    ("I met PER on Sunday.", "Where did you meet them?", "Where did you meet PER?"),
    ("Will PER come to LOC?", "I do not know.", "I do not know."),
    ("PER lives in LOC.", WEATHER, WEATHER),
    ("ORG has sued PER.", "They must be angry.", "ORG must be angry."),
)
# A product, and what its ads may say about it.
PRODUCTS = {
    "coat": """keeps the wind out | warm in every winter | dries within an hour
        | deep pockets for cold hands | a hood for rainy days | soft lining of wool""",
    "kettle": """boils in two minutes | switches itself off | cool to the touch
        | pours without a drip | eight cups of tea | quiet at breakfast""",
    "bicycle": """brakes that never fail | light on every hill | seven gears
        | a saddle like an armchair | tyres for bad roads | a frame of steel""",
    "lamp": """light for long evenings | dim it with a touch | gentle on your eyes
        | bends to your book | bright as the morning sun | no glare on the screen""",
    "sofa": """room for the whole family | turns into a bed | cushions in eight colours
        | covers that can be washed | legs of solid oak | sink in and stay""",
}
OPENINGS = "the new {name} is here | meet the {name} | discover the {name}"
CLOSINGS = """order it today | delivered free of charge | only while stocks last
    | thirty days to return it | half the price this week"""
ADS, NEW_ADS = 120, 6
# Set -> numbers of sentences, contexts and dialogues, and fifths of the lists of names.
SETS = {
    "train": (300, 200, 800, (0, 1, 2)),
    "dev": (100, 30, 100, (3,)),
    "test": (100, 30, 100, (4,)),
}


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
        """Facts about one or two people; one question in seven has no answer there."""
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

    def dialogue(self) -> str:
        """A line of three columns: an utterance, the next one, and that in full."""
        line = "\t".join(self.rng.choice(DIALOGUES))
        for kind, name in self.names().items():
            line = line.replace(kind, name)
        return f"{line}\n"

    def ad(self) -> tuple[str, str]:
        """The name of a product, from its maker and kind, and an ad for it."""
        kind = self.rng.choice([*PRODUCTS])
        name = f"{self.names()['ORG']} {kind}"
        opening = self.rng.choice(phrases(OPENINGS)).format(name=name)
        said = self.rng.sample(phrases(PRODUCTS[kind]), 2)
        said = [opening, *said, self.rng.choice(phrases(CLOSINGS))]
        return name, "".join(f"{one[0].upper()}{one[1:]}! " for one in said).strip()


def phrases(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split("|")]


def ad_files() -> dict[str, str]:
    old, new = (Drawn(f"ads of {name}", SETS[name][-1]) for name in ("train", "test"))
    told = ["product\tad", *("\t".join(old.ad()) for _ in range(ADS))]
    asked = [new.ad()[1] for _ in range(NEW_ADS)]
    files = {"ads/ads.tsv": told, "ads/new.txt": asked}
    return {name: "".join(f"{one}\n" for one in rows) for name, rows in files.items()}


def main(directory: str) -> None:
    files = ad_files()
    for label, (sentences, contexts, dialogues, fifths) in SETS.items():
        drawn = Drawn(label, fifths)
        tagged = [drawn.sentence() for _ in range(sentences)]
        told = [drawn.paragraph(number) for number in range(contexts)]
        squad = {"version": "v2.0", "data": [{"title": label, "paragraphs": told}]}
        said: dict[str, None] = {}  # without duplicates
        while len(said) < dialogues:
            said[drawn.dialogue()] = None
        files[f"ner/{label}.txt"] = "".join(tagged)
        files[f"questions/{label}.json"] = json.dumps(squad, indent=1) + "\n"
        files[f"dialogues/{label}.tsv"] = "context\tsource\ttarget\n" + "".join(said)
    for file, text in files.items():
        path = pathlib.Path(directory, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(str(__doc__).strip())
    main(sys.argv[1])
