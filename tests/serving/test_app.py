"""The HTTP application: the forms of requests and answers, and the page's files."""

import concurrent.futures
import json
import re

from tests.support.served import LIMITS, Reverser


def test_the_row_form_of_tensorflow_serving(client):
    """As tensorflow.org/tfx/serving/api_rest has it."""
    wanted = [{"label": "cba", "class": 1}, {"label": "好你", "class": 1}]
    for instances in (["abc", "你好"], [{"text_a": "abc"}, {"text_a": "你好"}]):
        assert client.predict({"instances": instances}) == (
            200,
            {"predictions": wanted},
        )
    body = {"instances": ["abc"], "signature_name": "serving_default"}
    assert client.predict(body) == (200, {"predictions": wanted[:1]})
    status, _, answer = client("POST", "/v1/models/turn/versions/1:predict", body)
    assert status == 200 and json.loads(answer) == {"predictions": wanted[:1]}


def test_one_output_stands_alone(served):
    model = Reverser()
    model.answer = lambda examples: [{"value": 1.5}] * len(examples)
    status, answer = served(model).predict({"instances": ["a", "b"]})
    assert (status, answer) == (200, {"predictions": [1.5, 1.5]})


def test_pairs(served):
    client = served(Reverser(("text_a", "text_b")))
    body = {"instances": [{"text_a": "ab", "text_b": "cd"}]}
    assert client.predict(body)[1]["predictions"][0]["label"] == "dc|ba"
    status, answer = client.predict({"instances": ["ab"]})
    assert status == 400
    assert answer["error"].endswith('pass {"text_a": "...", "text_b": "..."}')


def test_the_state_of_the_model(client):
    status, _, body = client("GET", "/v1/models/turn")
    (state,) = json.loads(body)["model_version_status"]
    assert status == 200 and state["state"] == "AVAILABLE"
    status, _, body = client("GET", "/v1/models/turn/metadata")
    signature = json.loads(body)["metadata"]["signature_def"]["signature_def"]
    assert [*signature["serving_default"]["inputs"]] == ["text_a"]
    assert client("GET", "/healthz")[0] == 200
    assert client("GET", "/v1/models/other")[0] == 404


def test_metrics_count_what_was_answered(client):
    client.predict({"instances": ["a", "b", "c"]})
    client.predict({"instances": []})
    client("POST", "/explain", {"text_a": "d"})
    client("POST", "/explain", {"text_b": "d"})
    text = client("GET", "/metrics")[2].decode()
    assert 'bert_mgpu_requests_total{status="200"} 2.0' in text
    assert 'bert_mgpu_requests_total{status="400"} 2.0' in text
    assert "bert_mgpu_batch_rows_sum 4.0" in text
    assert "bert_mgpu_waiting_rows 0.0" in text
    for line in text.splitlines():  # the exposition format
        assert re.fullmatch(r'# .*|[a-z_]+(\{[a-z]+="[^"]*"\})? [-+0-9.eInf]+', line)


def test_the_page_has_a_strict_policy(client, tmp_path):
    for path, kind in (("/", "html"), ("/page.js", "javascript"), ("/page.css", "css")):
        status, headers, body = client("GET", path)
        assert status == 200 and kind in headers["content-type"] and body
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert b"http://" not in body and b"https://" not in body  # nothing elsewhere
    page = client("GET", "/")[2].decode()
    assert "<style" not in page and "style=" not in page and "onclick" not in page
    assert re.findall(r"<script.*?</script>", page) == [
        '<script src="/page.js" defer></script>'
    ]


def test_the_page_knows_the_model(served, tmp_path):
    report = tmp_path / "report.html"
    client = served(Reverser(("text_a", "text_b"), report))
    page = {"name": "turn", "inputs": ["text_a", "text_b"], "report": False}
    page["titles"] = ["text", "second"]
    assert json.loads(client("GET", "/page.json")[2]) == page
    assert client("GET", "/report")[0] == 404
    report.write_text("<!doctype html>")
    assert json.loads(client("GET", "/page.json")[2]) == {**page, "report": True}
    status, headers, body = client("GET", "/report")
    assert (status, body) == (200, b"<!doctype html>")
    assert "script" not in headers["content-security-policy"]
    answer = client("POST", "/explain", {"text_a": "ab", "text_b": "cd"})
    assert json.loads(answer[2])["text"] == "ba"


def test_many_clients_get_their_own_answers(served):
    client = served(Reverser(), LIMITS._replace(waiting=1000))

    def ask(number):
        texts = [f"{number} {row}" for row in range(1 + number % 8)]
        status, answer = client.predict({"instances": texts})
        wanted = [{"label": text[::-1], "class": 1} for text in texts]
        return status == 200 and answer["predictions"] == wanted

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(300)))
