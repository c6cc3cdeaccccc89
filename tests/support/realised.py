"""Tokenizers that know the words of a text, and checks of the text that edits make."""

import itertools

from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.realise import realised
from bert_mgpu.text.tokenization import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["walk", "##s", "##ing", "go", "##ne", "iphone", "##x"]


def tokenizer_of(path, words, lower_case=True):
    path.write_text("\n".join([*SPECIAL, *dict.fromkeys(words)]), encoding="utf-8")
    return Tokenizer(path, lower_case)


def knows(tmp_path, *texts, lower_case=True):
    """A tokenizer for which each word of the texts is one piece, but for a few."""
    pieces = {"walks", "walking", "gone", "gos", "iphonex"}
    words = [w for text in texts for w in Normalizer(lower_case).words(text)]
    words = [word for word in words if word not in pieces]
    return tokenizer_of(tmp_path / "vocab.txt", [*words, *PIECES], lower_case)


def applied(text, edits):
    """The text with edits in characters applied to it."""
    parts, done = [], 0
    for start, end, _, new in edits:
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def checked(source, script, tokenizer, **options):
    """What is realised; no edit touches what is kept, and they make the text."""
    made = realised(source, script, tokenizer, **options)
    assert applied(source.text, made.edits) == made.text
    for edit in made.edits:
        assert source.text[edit.start : edit.end] == edit.old != edit.new
    for one, other in itertools.pairwise(made.edits):
        assert one.end <= other.start
    changed = {i for edit in made.edits for i in range(edit.start, edit.end)}
    gone = itertools.compress(source.places, [not keep for keep in script.keeps])
    gone = {i for place in gone for i in range(*place)}
    inside = [  # between the tokens of a syllable, which becomes another one
        range(*one)
        for number, (one, other) in enumerate(itertools.pairwise(source.places), 1)
        if other[0] < one[1] and any(script.counts[number : number + 1])
    ]
    gone |= {i for span in inside for i in span}
    for start, end in source.places:
        span = {*range(start, end)}
        assert span & gone or not span & changed
    return made
