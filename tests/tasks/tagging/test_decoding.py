"""Whole sentences from the outputs of their windows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.model import crf
from bert_mgpu.tasks.tagging import bio, dataset, decoding, predictions
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.decoding import TaggedSet
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.tiny import VOCAB

TAGS = bio.tags_of(["A", "B"], "bio")
RULES = crf.Transitions(*bio.rules_of(TAGS))
SCHEMES = {
    scheme: (tags, crf.Transitions(*bio.rules_of(tags)))
    for scheme in ("bio", "bioes")
    for tags in [bio.tags_of(["A", "B"], scheme)]
}


def ragged(lengths, seed, scale=3.0, tags=TAGS):
    draw = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = draw.normal(size=(offsets[-1], len(tags))) * scale
    return Ragged(values.astype(np.float32), offsets)


def transitions(seed=None, tags=TAGS):
    """Random ones, or none: those of a softmax."""
    draw, count = np.random.default_rng(seed), len(tags)
    shapes = (count, count), (count,), (count,)
    scale = 0 if seed is None else 1
    return crf.Transitions(
        *((scale * draw.normal(size=shape)).astype(np.float32) for shape in shapes)
    )


@pytest.mark.parametrize("scheme", [*SCHEMES])
@pytest.mark.parametrize("seed", [None, 1])
def test_the_best_of_all_allowed_sequences(seed, scheme):
    names, rules = SCHEMES[scheme]
    emissions = ragged([3, 1, 4, 0, 2], 7, tags=names)
    weights = transitions(seed, names)
    tags, shares = decoding.decode(emissions, weights, rules)
    for number, units in enumerate(emissions.lengths.tolist()):
        own, scores = emissions.row(number).astype(np.float64), {}
        for path in itertools.product(range(len(names)), repeat=units):
            if not units or bio.read_spans([names[tag] for tag in path], scheme).faults:
                continue
            score = own[range(units), path].sum()
            score += weights.first[path[0]] + weights.last[path[-1]]
            score += sum(weights.follow[a, b] for a, b in itertools.pairwise(path))
            scores[path] = score
        best = max(scores, key=scores.get) if units else ()
        assert tuple(tags.row(number)) == best
        total = np.logaddexp.reduce([*scores.values()]) if units else 0
        for unit, tag in enumerate(best):
            same = [s for path, s in scores.items() if path[unit] == tag]
            wanted = np.exp(np.logaddexp.reduce(same) - total)
            assert shares.row(number)[unit] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("scheme", "seed"), [("bioes", 1), *rarely(("bio", None))])
def test_a_hundred_thousand_sentences_break_no_rule(scheme, seed):
    names, rules = SCHEMES[scheme]
    lengths = np.random.default_rng(3).integers(0, 13, 100_000)
    emissions = ragged(lengths, 4, 20.0, names)
    tags, shares = decoding.decode(emissions, transitions(seed, names), rules)
    starts = tags.offsets[:-1][lengths > 0]
    ends = tags.offsets[1:][lengths > 0] - 1
    assert rules.first[tags.values[starts]].all()
    inside = np.setdiff1d(np.arange(len(tags.values)), starts)
    assert rules.follow[tags.values[inside - 1], tags.values[inside]].all()
    assert rules.last[tags.values[ends]].all()
    assert rules.last.all() == (scheme == "bio")
    assert (shares.values > 0).all() and (shares.values < 1.0001).all()


def test_batches_do_not_show(monkeypatch):
    emissions = ragged(np.random.default_rng(5).integers(0, 40, 60), 6)
    wanted = decoding.decode(emissions, transitions(2), RULES)
    monkeypatch.setattr(decoding, "_FULL", 64)
    tags, shares = decoding.decode(emissions, transitions(2), RULES)
    assert (tags.values == wanted[0].values).all()
    np.testing.assert_allclose(shares.values, wanted[1].values, atol=1e-5)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path, True)


def tagged_set(examples, tokenizer, wanted, *, length=16, **more):
    """A set whose outputs say `wanted`, tags by example, as loudly as they can."""
    rows = dataset.featurise(
        examples,
        tokenizer,
        TAGS,
        max_seq_length=length,
        doc_stride=5,
        by_words=False,
    )
    is_unit = rows.ragged["tag_ids"].values > 0
    emissions = np.full((len(is_unit), len(TAGS)), 9.0, np.float32)  # is not read
    emissions[is_unit] = 0
    said = [TAGS.index(tag) for tags in wanted for tag in tags]
    emissions[np.flatnonzero(is_unit), said] = 10
    outputs = {"logits": Ragged(emissions, rows.ragged["tag_ids"].offsets), **more}
    return TaggedSet(outputs, rows, TAGS, rules=RULES, examples=lambda: examples)


def test_entities_of_windows_by_character(tokenizer):
    text = " ".join(["sun", "rain", "joy"] * 8)
    tags = (["O"] * 6 + ["B-A"] + ["I-A"] * 9 + ["B-B"] + ["O"] * 7)[:24]
    truth = Entities((Span(0, 3, "A"), Span(18 + 8, 80, "A")))
    examples = [Example("", text, label=truth), Example("", "joy")]
    scored = tagged_set(examples, tokenizer, [tags, ["B-B"]])
    words = text.split(" ")
    start = len(" ".join(words[:6])) + 1
    end = len(" ".join(words[:16]))
    first, second = scored.entities
    assert first == [Span(start, end, "A"), Span(end + 1, end + 5, "B")]
    assert second == [Span(0, 3, "B")]
    assert scored.true_entities == [[*truth.spans], []]
    assert len(scored) == 2


def test_a_sequence_that_is_none_becomes_one(tokenizer):
    """I-B has the highest score, but nothing begins before it."""
    scored = tagged_set([Example("", "sun joy")], tokenizer, [["O", "I-B"]])
    tags = [TAGS[tag] for tag in scored.decoded[0].values]
    assert not bio.read_spans(tags, "bio").faults


def test_losses_are_those_of_the_true_tags(tokenizer):
    truth = Entities((Span(0, 3, "A"),))
    scored = tagged_set([Example("", "sun joy", label=truth)], tokenizer, [["O", "O"]])
    wrong, right = 10 + np.log1p(4 * np.exp(-10)), np.log1p(4 * np.exp(-10))
    assert scored.losses.sum() == pytest.approx(wrong + right, rel=1e-5)


def test_true_tags_beside_predicted_ones_of_a_set_without_labels(tokenizer):
    """The file alone has them; an end may be among characters of no unit."""
    bare = Example("", "sun\u200b joy\ufe0f rain", line=1)
    scored = tagged_set([bare], tokenizer, [["O", "O", "O"]])
    spans = Span(0, 4, "A"), Span(5, 8, "B")
    scored.examples = [replace(bare, label=Entities(spans))]
    assert "".join(predictions.decide(scored).files["label_test.txt"]) == (
        "sun B-A O\njoy\ufe0f B-B O\nrain O O\n\n"
    )


def test_no_probability_is_above_1(tokenizer):
    """In long sentences float32 makes some a little larger."""
    scored = tagged_set([Example("", "sun", line=1)], tokenizer, [["B-A"]])
    tags, _ = scored.decoded
    scored.decoded = tags, Ragged(np.array([1.00002], np.float32), tags.offsets)
    predicted = predictions.decide(scored)
    assert predicted.values[0].tolist() == [1.0]
    assert predicted.records[0]["entities"][0]["probability"] == 1.0


def test_the_lines_of_each_file(tokenizer):
    words = Example("", "sun joy", line=1, words=[(0, 3), (4, 7)])
    examples = [words, Example("", "sun，joy", line=4), Example("", "", line=5)]
    said = [["B-A", "I-A"], ["B-B", "O", "B-A"], []]
    predicted = predictions.decide(tagged_set(examples, tokenizer, said))
    assert predicted.texts == ["B-A I-A", "0:3:B 4:7:A", ""]
    assert [len(values) for values in predicted.values] == [2, 3, 0]
    first, second, third = predicted.records
    assert first["text"] == "sun joy" and third == {"entities": []}
    (one,) = first["entities"]
    share = one.pop("probability")
    assert one == {"start": 0, "end": 7, "type": "A", "text": "sun joy"}
    assert share == pytest.approx(predicted.values[0].min())
    assert [each["text"] for each in second["entities"]] == ["sun", "joy"]
    assert "".join(predicted.files["label_test.txt"]) == (
        "sun B-A\njoy I-A\n\nsun B-B\n， O\njoy B-A\n\n\n"
    )
    true = Entities((Span(0, 3, "B"), Span(4, 6, "A")))  # the latter fits no unit
    examples = [replace(one, label=Entities(())) for one in examples]
    examples[1] = replace(examples[1], label=true)
    predicted = predictions.decide(tagged_set(examples, tokenizer, said))
    assert "".join(predicted.files["label_test.txt"]) == (
        "sun O B-A\njoy O I-A\n\nsun B-B B-B\n， O O\njoy O B-A\n\n\n"
    )
    examples[0] = replace(examples[0], label=None)
    predicted = predictions.decide(tagged_set(examples, tokenizer, said))
    assert predicted.files["label_test.txt"][0] == "sun B-A\n"
    shown = predictions.display(second)
    assert shown.text == "sun B, joy A" and len(shown.bars) == 2
    assert shown.spans == [(0, 3, "B"), (4, 7, "A")]
    assert predictions.display(third).text == "no entity"
