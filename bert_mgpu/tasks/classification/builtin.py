"""The files, columns and labels of the built-in tasks.

The tasks and their columns are those of google-research/bert (cola, mnli,
mrpc, xnli) and of its fork bert-ad (the rest), so that old data folders work.
Lines are split at tabs, quotes are ordinary characters.
"""

from __future__ import annotations

import dataclasses
import json

from bert_mgpu.data import json_lines
from bert_mgpu.tasks.files import LAST, Columns, TaskFiles

# The types of tasks, see problem_types.py.
TYPES = SINGLE, MULTI, REGRESSION = "single", "multi", "regression"


def _sentiment_cells(line: str) -> list[str]:
    """A JSON line as two cells; a missing sentiment gives an empty one.

    Raises ValueError if it is not an object with a text.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from None
    match record:
        case {"comment": str(comment)} if json_lines.has_surrogate(comment):
            raise ValueError('"comment" contains an unpaired surrogate')
        case {"comment": str(comment), "items": [{"sentiment": value}, *_]}:
            return [comment, str(value)]
        case {"comment": str(comment)}:
            return [comment, ""]
    raise ValueError('no string "comment" in the JSON object')


def _halves(text: str) -> tuple[str, str]:
    half = len(text) // 2
    return text[:half], text[half:]


def _comma_halves(text: str) -> tuple[str, str]:
    """The parts between commas in two halves, the second without commas (bert-ad)."""
    pieces = text.split(",")
    half = len(pieces) // 2
    return ",".join(pieces[:half]), "".join(pieces[half:])


def _lower_and_strip(text: str) -> str:
    return text.lower().strip()


_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_WOS = Columns(text_a=1, label=0, pair=_comma_halves)
_AUDIT = Columns(text_a=LAST, label=2, clean=_lower_and_strip, clean_label=str.strip)

# fmt: off
_NEWS = (
    "news_story", "stock", "news_house", "news_finance", "news_edu", "news_car",
    "news_travel", "news_world", "news_game", "news_agriculture", "news_sports",
    "news_tech", "news_military", "news_entertainment", "news_culture",
)
_TOPICS = (
    "beauty", "astro", "history", "food", "digital", "game", "science",
    "health", "baby", "houseliving", "ent", "edu", "pet", "tech", "finance",
    "mil", "agriculture", "sports", "travel", "house",
)
_TASKS = (
    TaskFiles("cola", _BINARY, "train.tsv", dev="dev.tsv", test="test.tsv",
              columns=Columns(text_a=3, label=1),
              other_columns={"test": Columns(text_a=1, header=True)}),
    TaskFiles("mnli", _NLI,
              "train.tsv", dev="dev_matched.tsv", test="test_matched.tsv",
              columns=Columns(text_a=8, text_b=9, label=LAST, header=True)),
    TaskFiles("mrpc", _BINARY, "train.tsv", dev="dev.tsv", test="test.tsv",
              columns=Columns(text_a=3, text_b=4, label=0, header=True)),
    TaskFiles("xnli", _NLI,
              "multinli/multinli.train.zh.tsv", dev="xnli.dev.tsv", test=None,
              columns=Columns(text_a=6, text_b=7, label=1, header=True, language="zh"),
              other_columns={"train": Columns(text_a=0, text_b=1, label=2, header=True,
                                relabel={"contradictory": "contradiction"})}),
    TaskFiles("sentiment", _BINARY, "train.txt", dev="test.txt", test=None,
              columns=Columns(text_a=0, label=1, cells=_sentiment_cells, pair=_halves,
                      relabel={"0": "0", "1": None, "2": "1"})),
    TaskFiles("wos5736", tuple(map(str, range(11))),
              "train.txt", dev="test.txt", test=None, columns=_WOS),
    TaskFiles("wos46985", tuple(map(str, range(134))),
              "train.txt", dev="test.txt", test=None, columns=_WOS),
    TaskFiles("toutiao", _NEWS, "train_0705.tsv", dev="test_0705.tsv", test=None,
              columns=Columns(text_a=1, label=0, clean=str.strip,
                      clean_label=str.strip, strip_lines=True)),
    TaskFiles("title_audit", _BINARY,
              "train_all_0531.txt", dev="test_all_0531.txt", test=None, columns=_AUDIT),
    TaskFiles("abuse", _BINARY,
              "train_abuse_0531.txt", dev="eval_data_revise.txt", test=None,
              columns=_AUDIT),
    TaskFiles("ad", _BINARY, "train_0620.txt", dev="eval_0620.txt", test=None,
              columns=Columns(text_a=2, text_b=3, label=0), has_slots=True),
    TaskFiles("high_level", _BINARY, "train_without_content_0515.txt",
              dev="test_without_content_0515.txt", test=None,
              columns=Columns(text_a=3, label=2, clean=str.lower)),
    TaskFiles("doc_lv1", _TOPICS, "train.tsv", dev="test.tsv", test=None,
              columns=Columns(text_a=1, label=0)),
)
# fmt: on

BUILTIN: dict[str, TaskFiles] = {
    task.name: dataclasses.replace(task, built_in=True) for task in _TASKS
}
