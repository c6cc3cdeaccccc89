"""The segments of ads: bert-ad's own rows, and ads that are unlike them."""

import itertools

import pytest

from bert_mgpu.text import ad_segments

AD = "同时，修身显瘦。。 穿着 舒适 ！同时"


def test_segments_stand_where_they_say():
    cut = ad_segments.segments(AD)
    assert [s.text for s in cut] == ["同时", "修身显瘦", "穿着 舒适", "同时"]
    assert [AD[s.start : s.end] for s in cut] == [s.text for s in cut]
    assert [s.number for s in cut] == [0, 1, 3, 4]  # as many delimiters are before
    for segment in cut:
        assert sum(c in "。！!？，：" for c in AD[: segment.start]) == segment.number


def test_other_delimiters():
    cut = ad_segments.segments("Buy now, save - 5]%.", ",-]")
    assert [s.text for s in cut] == ["Buy now", "save", "5", "%."]
    assert len(ad_segments.segments("a^b", "^")) == 2
    assert ad_segments.segments("", ",") == ad_segments.segments(" ,, ", ",") == []


def test_one_occurrence_alone_becomes_a_slot():
    last = ad_segments.segments(AD)[-1]
    assert ad_segments.with_slot(AD, last, "优雅大方") == AD[:-2] + "““““"
    assert ad_segments.marked(AD, last) == AD[:-2] + "[SLOT]"


@pytest.mark.parametrize("ends", ["", "。"])
def test_an_ad_without_a_segment_has_all_other_segments(ends):
    ad = "一一，二二！ 三三 。四四" + ends
    cut = ad_segments.segments(ad)
    for segment in cut:
        left = ad_segments.without(ad, segment)
        others = [s.text for s in cut if s is not segment]
        assert [s.text for s in ad_segments.segments(left)] == others
        lost = len(ad) - len(left) - len(segment.text)
        assert 1 <= lost <= 3  # one delimiter, and blanks beside it
    single = ad_segments.segments("一" + ends)[0]
    assert ad_segments.without("一" + ends, single) == ""


@pytest.mark.parametrize(
    ("ad", "holds"),
    [("一，[SLOT]", True), ("一，““。", True), ("“一”，“二", False), ("一，二", False)],
)
def test_what_would_be_taken_for_a_slot(ad, holds):
    assert ad_segments.has_slot(ad, ad_segments.segments(ad)) == holds


def test_what_stands_beside_the_main_part():
    assert ad_segments.beside("一，主体。二，三！", "主体") == ["一", "二，三"]
    assert ad_segments.beside("主体", "主体") == []
    assert ad_segments.beside("一，主体，", "主体") == ["一"]
    assert ad_segments.beside("，，一主体", "主体") == ["，一"]  # one delimiter alone
    assert ad_segments.beside("一，二", "主体") is None


def test_any_text_is_cut_into_what_it_is():
    for characters, delimiters in itertools.product(
        itertools.product(" ，。“a\u3000", repeat=5),
        (ad_segments.DELIMITERS, "。 ", "\u3000，"),
    ):
        ad = "".join(characters)
        cut = ad_segments.segments(ad, delimiters)
        assert [ad[s.start : s.end] for s in cut] == [s.text for s in cut]
        for one, other in itertools.pairwise(cut):
            assert one.end < other.start and one.number < other.number
        for segment in cut:
            left = ad_segments.without(ad, segment, delimiters)
            left = [own.text for own in ad_segments.segments(left, delimiters)]
            assert left == [own.text for own in cut if own is not segment]
