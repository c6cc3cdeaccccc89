"""Predictions in notebooks."""

from bert_mgpu.api.prediction import SHOWN, Prediction, PredictionList


def prediction(*texts, label="<b>", **fields):
    values = {"label": label, "probability": 0.75, **fields}
    return Prediction(values, values, answer=label, texts=(*texts, None)[:2])


def test_a_table_shows_texts_as_text():
    table = PredictionList([prediction("<script>")])._repr_html_()
    assert "&lt;script&gt;" in table and "&lt;b&gt;" in table and "75.0%" in table
    assert "<script>" not in table and "<b>" not in table


def test_a_table_is_short():
    texts = [(f"{'x' * 100}{number}", "second") for number in range(SHOWN + 7)]
    table = PredictionList(prediction(*pair) for pair in texts)._repr_html_()
    assert table.count("<tr>") == SHOWN + 1 and "and 7 more" in table
    assert "x" * 81 not in table


def test_a_number_has_no_probability():
    fields = {"value": 1.5}
    one = Prediction(fields, fields, answer="1.5", texts=("text", None))
    table = one._repr_html_()
    assert "<td>1.5</td><td></td>" in table
    assert repr(one) == "Prediction(value=1.5)" and one.value == 1.5


def test_a_sorted_list_keeps_its_texts():
    found = PredictionList(prediction(text, label=text) for text in "bca")
    found.sort(key=str)
    table = found._repr_html_()
    assert [table.index(f">{text}</td><td>{text}<") for text in "abc"] == sorted(
        table.index(f">{text}</td>") for text in "abc"
    )
