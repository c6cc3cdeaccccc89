"""The blanks of what is written, and of what stands beside what is deleted."""

import random
import re

import pytest

from bert_mgpu.text import edits
from bert_mgpu.text.edits import Edits
from bert_mgpu.text.rewrite_source import source_of
from bert_mgpu.text.spacing import Spacing
from tests.support.realised import checked, knows


@pytest.mark.parametrize(
    ("source", "target"),
    [
        # Deleted: blanks go with the words, none comes before punctuation.
        ("a red, new car", "a red car"),
        ("a red, new car", "a red, car"),
        ("a car (new) drives", "a car drives"),
        ("a new car.", "a new."),
        ("a new car.", "new car."),
        ("  a new car \n", "  new car \n"),
        ("  a new car \n", "  a new \n"),
        ("a  b   c", "a  b"),
        ("a new\ncar drives", "a\ncar drives"),
        ("car", ""),
        ("b, a new\n, car", "b, a\n, car"),  # lines stay apart
        ("well-known car", "well known car"),
        # Written: blanks between words, punctuation as print has it.
        ("a car", "a new car"),
        ("a  car", "a  new car"),
        ("a car", "a car, a house"),
        ("a car", "a car (new) drives."),
        ("a car", 'a "new" car'),
        ('he said "no"', 'he said "no" to "me" there'),
        ("a known car", "a well-known car"),
        ("", "new car."),
        ("it is 3 long", "it is 3.5 long"),
        ("it cost 1 now", "it cost $1,000 now"),
        ("at 10", "at 10:30"),
        ("in 2010, about 300 came", "in 2010, 300 came"),
        ("in 20, about 300 came", "in 20, 300 came"),
        ("we met at 9. about 30 came", "we met at 9. 30 came"),
        ("in 20, we met", "in 20, 500 met"),
        ("in 2010 we met", "in 2010, 500 met"),
        ("do not go", "don't go"),
        ("good day", "good day 😀 now"),
        ("yes", "yes!!"),
        # As the text itself has it.
        ("a , b , c", "a , b , new , c"),
        ("a ; b .", "a ; b , c ."),
        ("a, b, c : d", "a, b, c : d : e, f"),
        # Stops of abbreviations and of names show nothing.
        ("the U.S. army , then we left .", "the U.S. army . then we left ."),
        ("J. R. met us , then left .", "J. R. met us . then left ."),
        ("see bert.com , then leave .", "see bert.com . then leave ."),
        ("the U.S. army left", "the U.S. army left."),
        ("the U.S. army , then we left", "the U.S. army , then we left ."),
        ("J. R. met us , then left", "J. R. met us , then left ."),
        ("see bert.com , then leave", "see bert.com , then leave ."),
        ("tom 's car .", "tom 's new house , tom 's car ."),
        ("« a » b", "« a » « b »"),
        ("« a » : b", "« a » : b : a"),
        ("rock / pop", "rock / pop / jazz"),
        ("he walks home", "he walking home"),
        ("he walks home", "he walks"),
        ("he walks home", "he gos home"),
        ("they go home", "they gone home"),
        # What replaces a text of its kind keeps the gaps beside signs.
        ("www.bert.com/docs", "www.bert.org/docs"),
        ("see main.py there", "see main.js there"),
        ("a.b.c", "a.b.d"),
        ("<b>one</b> two", "<b>three</b> two"),
        ("yes. so,no", "yes. so,now"),
        ("one ! two", "one ? two"),
        ("one + two-three", "one = two-three"),
        ("he walk home", "he walking"),
        # Chinese, Japanese, Korean: blanks stay, none is added beside ideographs.
        ("今天天气", "今天的天气怎么样？"),
        ("今天，好", "今天，很好，好"),
        ("你好 世界", "你好 世界的人"),
        ("我用 iphone 手机", "我用手机"),
        ("我 用 它 了", "我 用 了"),
        ("手机好", "iphone手机好"),
        ("手机好", "iphonex手机好"),
        ("我有 iphone 好", "我有 iphone 和 iphonex 好"),
        ("他说“好”了", "他说“好”和“很”了"),
        ("价格￥100", "价格￥100，￥200"),
        ("한국어 좋아", "한국 좋아"),
        ("한국어 좋아", "한국어 아주 좋아"),
    ],
)
def test_blanks(source, target, tmp_path):
    tokenizer = knows(tmp_path, source, target)
    own = source_of(source, tokenizer)
    script = next(edits.edits_of([(own.ids, tokenizer.ids(target))]))
    assert checked(own, script, tokenizer).text == target


def test_what_is_deleted_takes_its_blanks_along(tmp_path):
    rng = random.Random(1)
    tokenizer = knows(tmp_path, "one two , . ( ) 天")
    for _ in range(1000):
        parts = rng.choices(["one", "two,", "(one)", "two.", "天"], k=rng.randrange(9))
        source = source_of(" ".join(parts), tokenizer)
        keeps = [rng.random() < 0.6 for _ in source.ids]
        script = Edits(keeps, [0] * (len(keeps) + 1), [])
        text = checked(source, script, tokenizer).text
        assert not re.search(r"\s\s|\s[,.)]|\(\s|^\s|\s$", text), (source.text, text)
        assert tokenizer.ids(text) == edits.realised(source.ids, script)


@pytest.mark.parametrize(
    "text", ["\ufe0f，新 loss", "\u0301.a", "\u0e31 a", "a \ufe0f, b"]
)
def test_a_mark_that_stands_on_no_letter_has_no_kind(text):
    """An emoji that was cut out leaves one behind."""
    places = [(at, at + 1) for at, char in enumerate(text) if not char.isspace()]
    own = Spacing(text, places)
    assert own.between("a", "b") is True and own.between(text, "b") in (
        True,
        False,
        None,
    )
