"""Texts made of words, and the places of these."""

import pytest

from bert_mgpu.text.words import joined

CASES = {
    ("EU", "rejects", "German", "call"): "EU rejects German call",
    ("北", "京", "在", "中", "国"): "北京在中国",
    ("iPhone", "很", "好", "OK", "!"): "iPhone很好OK !",
    ("서울", "은", "도시"): "서울 은 도시",  # Hangul has blanks between words
    ("カ", "ナ", "。", "ＯＫ"): "カナ。ＯＫ",
    ("a",): "a",
    (): "",
    ("", "a"): " a",
    ("New York", "is"): "New York is",
    ("👍", "🏽", "好"): "👍🏽好",
    ("I", "😀", "agree"): "I 😀 agree",  # an emoji is wide in all scripts
    ("ok👍🏽", "then"): "ok👍🏽 then",
    ("好", "😀", "好"): "好😀好",
}


@pytest.mark.parametrize("words", [*CASES])
def test_words_are_found_at_their_places(words):
    text, places = joined(words)
    assert text == CASES[words]
    assert [text[start:end] for start, end in places] == [*words]
