"""A page of HTML: text from outside stays text."""

import pytest

from bert_mgpu.evaluation import html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ('" onload="x', "&quot; onload=&quot;x"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b", "a\\u2066b"),
        ("a\x00b", "a\\u0000b"),
        ("好 ☃", "好 ☃"),
    ],
)
def test_text_is_only_text(text, shown):
    assert html.escaped(text) == shown
    page = html.page(text, [text], [(text, html.table([[text], [text]], "t"))])
    assert page.count(shown) == 7 and text.count("<") * page.count("<script>") == 0


def test_columns_have_their_classes():
    table = html.table([["set", "n"], ["dev", 3, "more"]], "wn")
    assert '<th>set</th><th class="n">n</th>' in table
    assert '<td>dev</td><td class="n">3</td><td>more</td>' in table
