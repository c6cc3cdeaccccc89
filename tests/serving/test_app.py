"""The HTTP application, with a model that turns texts around: forms and refusals."""

import concurrent.futures
import contextlib
import http.client
import json
import re
import socket
import threading
import time

import pytest
import uvicorn

from bert_mgpu.core.errors import OutOfMemory
from bert_mgpu.serving.app import Limits, make_app

LIMITS = Limits(body=4096, rows=8, characters=500, waiting=12, seconds=5)


class Reverser:
    """A model whose answer to a text is the text turned around."""

    name, batch = "turn", 4

    def __init__(self, inputs=("text_a",), report=None):
        self.inputs, self.report = inputs, report
        self.may_go = threading.Event()
        self.may_go.set()
        self.error = None

    def example(self, *texts):
        return texts

    def answer(self, examples):
        self.may_go.wait(30)
        if self.error:
            raise self.error
        return [{"label": "|".join(e)[::-1], "class": len(e)} for e in examples]

    def explain(self, example):
        bars, cut = [["yes", 0.75]], ""
        return {"text": example[0][::-1], "bars": bars, "cut": cut, "unknown": []}


class Client:
    """Requests to a server of this process."""

    def __init__(self, port):
        self.port = port

    def raw(self, content):
        """What the server sends for these bytes, within a second of silence."""
        answer = b""
        with (
            socket.create_connection(("127.0.0.1", self.port), 1) as connection,
            contextlib.suppress(TimeoutError, ConnectionError),
        ):
            connection.sendall(content)
            while part := connection.recv(65536):
                answer += part
        return answer

    def __call__(self, method, path, body=None, **headers):
        """(status, headers, body) of a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return answer

    def predict(self, body, **headers):
        status, _, answer = self("POST", "/v1/models/turn:predict", body, **headers)
        return status, json.loads(answer)


@pytest.fixture
def served():
    """served(model, limits) -> a Client of a server that runs in a thread."""
    running = []

    def start(model, limits=LIMITS, hosts=("127.0.0.1", "localhost", "::1")):
        listener = socket.create_server(("127.0.0.1", 0))
        app = make_app(model, limits, hosts)
        config = uvicorn.Config(app, log_config=None, ws="none", server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        running.append((server, thread, model))
        while not server.started:
            time.sleep(0.01)
        return Client(listener.getsockname()[1])

    yield start
    for server, thread, model in running:
        model.may_go.set()
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def client(served):
    return served(Reverser())


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
    text = client("GET", "/metrics")[2].decode()
    assert 'bert_mgpu_requests_total{status="200"} 1.0' in text
    assert 'bert_mgpu_requests_total{status="400"} 1.0' in text
    assert "bert_mgpu_batch_rows_sum 3.0" in text
    assert "bert_mgpu_waiting_rows 0.0" in text
    for line in text.splitlines():  # the exposition format
        assert re.fullmatch(r'# .*|[a-z_]+(\{[a-z]+="[^"]*"\})? [-+0-9.eInf]+', line)


DEEP = "[" * 100_000
# Body -> status; what is said of it.
REFUSED = {
    "": (400, "the body is no JSON"),
    "{": (400, "the body is no JSON"),
    "[]": (400, "the body is no JSON object"),
    "7": (400, "the body is no JSON object"),
    "{}": (400, 'pass {"instances": [...]}'),
    '{"instances": []}': (400, 'pass {"instances": [...]}'),
    '{"instances": "text"}': (400, 'pass {"instances": [...]}'),
    '{"instances": {"text_a": "x"}}': (400, 'pass {"instances": [...]}'),
    '{"inputs": {"text_a": ["x"]}}': (400, 'pass {"instances": [...]}'),
    '{"instances": [1]}': (400, "instances[0]: 1: pass"),
    '{"instances": [null]}': (400, "instances[0]: None: pass"),
    '{"instances": ["x", ["y"]]}': (400, "instances[1]: ['y']: pass"),
    '{"instances": [{}]}': (400, "instances[0]: {}: pass"),
    '{"instances": [{"text": "x"}]}': (400, "instances[0]: {'text': 'x'}: pass"),
    '{"instances": [{"text_a": 1}]}': (400, "instances[0]: {'text_a': 1}: pass"),
    '{"instances": [{"text_a": "x", "b": "y"}]}': (400, "instances[0]: "),
    '{"instances": ["\\ud800"]}': (400, "half a character"),
    '{"instances": ["x"], "signature_name": "ids"}': (400, "signature_name"),
    json.dumps({"instances": ["x"] * 9}): (413, "9 rows: pass at most 8"),
    json.dumps({"instances": ["x" * 501]}): (413, "more than 500 characters"),
    json.dumps({"instances": ["x"], "y": "z" * 5000}): (413, "more than 4096 bytes"),
    DEEP: (413, "more than 4096 bytes"),
    DEEP[:4000]: (400, "the body is no JSON"),
}


@pytest.mark.parametrize("body", [*REFUSED], ids=lambda body: body[:40])
def test_bodies_that_are_refused(client, body):
    status, message = REFUSED[body]
    actual, answer = client.predict(body)
    assert actual == status and message in answer["error"]
    assert client.predict({"instances": ["ab"]})[0] == 200  # it goes on


def test_a_body_without_a_length_is_bounded_too(client):
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    head = (
        b"POST /v1/models/turn:predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert b"HTTP/1.1 413" in client.raw(head + 5 * chunk + b"0\r\n\r\n")


def test_a_body_that_never_comes_ends(served):
    client = served(Reverser(), LIMITS._replace(seconds=0.3))
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        connection.sendall(
            b"POST /v1/models/turn:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 100\r\n\r\nabc"
        )
        assert b"HTTP/1.1 408" in connection.recv(65536)


HOSTS = [
    ({"Host": "127.0.0.1"}, True),
    ({"Host": "LOCALHOST:80"}, True),
    ({"Host": "[::1]:8501"}, True),
    ({"Host": "evil.example"}, False),
    ({"Host": "localhost.evil.example"}, False),
    ({"Host": "127.0.0.1.evil.example"}, False),
    ({"Host": "evil@localhost"}, True),  # its name is localhost
    ({"Host": "localhost@evil.example"}, False),
    ({"Host": ""}, False),
    ({"Host": "[::1"}, False),
    ({"Host": "localhost", "Origin": "http://localhost"}, True),
    ({"Host": "localhost", "Origin": "https://localhost"}, True),
    ({"Host": "localhost", "Origin": "http://evil.example"}, False),
    ({"Host": "localhost", "Origin": "http://localhost:1234"}, False),
    ({"Host": "localhost", "Origin": "null"}, False),
]


@pytest.mark.parametrize(("headers", "taken"), HOSTS)
def test_foreign_hosts_and_origins(client, headers, taken):
    for method, path in (("GET", "/"), ("POST", "/v1/models/turn:predict")):
        body = {"instances": ["ab"]} if method == "POST" else None
        assert (client(method, path, body, **headers)[0] == 200) == taken


def test_two_hosts_are_none(client):
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"
    assert b" 200 " not in client.raw(head).splitlines()[0]


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/page/../app.py", "/%2e%2e/app.py", "//etc/passwd",
     "/static/../../app.py", "/page.js/", "/report/../run.json"],
)  # fmt: skip
def test_no_other_file_is_served(client, path):
    assert client("GET", path)[0] == 404


@pytest.mark.parametrize(
    "content",
    [b"\x00\x01\x02", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" * 50,
     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
     b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000],
)  # fmt: skip
def test_what_is_no_request_ends_nothing(client, content):
    assert b" 200 " not in client.raw(content)[:15]
    assert client.predict({"instances": ["ab"]})[0] == 200


def test_methods(client):
    assert client("GET", "/v1/models/turn:predict")[0] == 405
    assert client("POST", "/", {})[0] == 405
    assert client("PUT", "/v1/models/turn", {})[0] == 405
    assert client("OPTIONS", "/v1/models/turn:predict")[0] == 405  # no CORS


def test_more_rows_than_may_wait_are_told_to_come_again(served):
    model = Reverser()
    client = served(model)
    model.may_go.clear()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(client.predict, {"instances": ["x"] * 4}) for _ in range(8)
        ]
        time.sleep(1)
        status, headers, _ = client(
            "POST", "/v1/models/turn:predict", {"instances": ["x"] * 8}
        )
        assert status == 429 and headers["retry-after"] == "1"
        model.may_go.set()
        answers = [future.result(30) for future in asked]
    assert {status for status, _ in answers} <= {200, 429}
    taken = [answer for status, answer in answers if status == 200]
    assert 3 <= len(taken) <= 4  # a batch of 4 rows, and 12 that wait
    assert client.predict({"instances": ["x"]})[0] == 200


def test_what_takes_too_long_ends(served):
    model = Reverser()
    client = served(model, LIMITS._replace(seconds=0.3))
    model.may_go.clear()
    status, answer = client.predict({"instances": ["x"]})
    assert status == 503 and "no answer within 0.3 s" in answer["error"]
    model.may_go.set()
    assert client.predict({"instances": ["ab"]})[0] == 200


@pytest.mark.parametrize("error", [OutOfMemory("it does not fit"), KeyError("x")])
def test_errors_of_the_model(served, error):
    model = Reverser()
    client = served(model)
    model.error = error
    status, answer = client.predict({"instances": ["x"]})
    if isinstance(error, OutOfMemory):
        assert (status, answer["error"]) == (503, "it does not fit")
    else:  # nothing of it is told
        assert (status, answer["error"]) == (500, "an error of the server: see its log")
    model.error = None
    assert client.predict({"instances": ["ab"]})[0] == 200


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
