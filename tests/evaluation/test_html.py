"""A page of HTML: text from outside stays text."""

import numpy as np
import pytest

from bert_mgpu.evaluation import html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ('" onload="x', "&quot; onload=&quot;x"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u061cb\u2028c", "a\\u061cb\\u2028c"),
        ("a\u2066b", "a\\u2066b"),
        ("a\x00b", "a\\u0000b"),
        ("好 ☃", "好 ☃"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("a\rb", "a\\u000db"),
    ],
)
def test_text_is_only_text(text, shown):
    assert html.escaped(text) == shown
    top = html.verdict(text, [text], good=True) + html.facts([(text, text)])
    table = html.table([[text], [text]], "t")
    page = html.page(text, top=top, sections=[(text, html.heading(text, "x") + table)])
    assert page.count(shown) == 11 and text.count("<") * page.count("<script>") == 0


def test_a_matrix_has_links_and_shares():
    labels = ["<a>", "好"]
    found = html.matrix(np.array([[9, 1], [0, 0]]), labels, {(0, 1): "x-0-1"})
    assert "<th>&lt;a&gt;</th>" in found and found.count("好") == 2
    assert '<td class="n right" style="--share: 90">9</td>' in found
    link = '<a href="#x-0-1">1</a>'
    assert f'<td class="n" style="--share: 10">{link}</td>' in found
    assert '<td class="n right" style="--share: 0"></td>' in found


def test_columns_have_their_classes():
    table = html.table([["set", "n"], ["dev", 3, "more"]], "wn")
    assert '<th>set</th><th class="n">n</th>' in table
    assert '<td>dev</td><td class="n">3</td><td>more</td>' in table
