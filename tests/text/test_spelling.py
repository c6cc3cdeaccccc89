"""The case and the accents of what is written."""

import pytest

from bert_mgpu.text import edits
from bert_mgpu.text.rewrite_source import source_of
from tests.support.realised import checked, knows


@pytest.mark.parametrize(
    ("source", "target", "context"),
    [
        # The same word in the input, with its accents.
        ("We met Zoë there", "We met Zoë and Zoë there", ""),
        ("he has it", "he has my iPhone", "Is it my iPhone?"),
        ("Die Stadt Köln", "Die Stadt Köln ist Köln", ""),
        ("Er kommt", "Er kommt nach Köln", "Kommt Max nach Köln?"),
        ("Über uns", "Über uns und über Max", "Das ist Max"),
        ("他要买", "他要买iPhone", "iPhone好吗"),
        # A word of a name is small where it is small elsewhere, but a name stays one.
        (
            "We saw The Hague and the sea",
            "We saw The Hague and the sea and the hut",
            "",
        ),
        (
            "We saw The Hague",
            "We saw The Hague and the sea",
            "by the sea",
        ),
        ("We saw Max Green there", "We saw Max Green there and Green left", ""),
        ("We saw Max green there", "We saw Max green there and Max left", "Max Max"),
        # Both forms: that of an abbreviation is not that of the word.
        ("in the US they tell us now", "in the US they tell us and us now", ""),
        ("US aid tells us", "US aid tells us of us", "the US"),
        ("they tell of US aid", "they tell US of US aid", "tell us"),
        ("we résumé it or resume", "we résumé it or résumé a resume", ""),
        # The start of a sentence, where the text starts with a capital.
        ("He left", "He left. Then we left", ""),
        ("He left", "Then He left", ""),
        ("he left", "he left. then we left", ""),
        ("He left and ate", 'He left. "It ate', ""),
        ("He left? yes", "He left? Then yes", ""),
        ("in the U.S. now", "in the U.S. state now", ""),
        ("We saw J. there", "We saw J. green there", ""),
        ("Was it .5 there", "Was it .5 long there", ""),
        ("1 Tag", "Max 1 Tag", "Das Max"),
        ("Er geht", "Er geht. ßa", ""),  # no capital is one letter
        ("你好? 好", "你好? 好iphone", ""),
        # All in capitals.
        ("BUY IT NOW", "BUY IT CHEAP NOW", ""),
        ("NBA 好", "NBA 好cheap", ""),
        ("HE WALKS", "HE WALKING", ""),
        ("It's in the U.S. now", "It's in the U.S. car's now", ""),
    ],
)
def test_case(source, target, context, tmp_path):
    tokenizer = knows(tmp_path, source, target, context)
    own = source_of(source, tokenizer)
    script = next(edits.edits_of([(own.ids, tokenizer.ids(target))]))
    assert checked(own, script, tokenizer, context=context).text == target


def test_a_cased_vocabulary_says_how_words_are_written(tmp_path):
    tokenizer = knows(tmp_path, "He left", "then We left. it Ate", lower_case=False)
    own = source_of("He left", tokenizer)
    script = next(edits.edits_of([(own.ids, tokenizer.ids("then We left. it Ate"))]))
    assert checked(own, script, tokenizer).text == "then We left. it Ate"
