"""The HTTP application: what it refuses, and that it goes on."""

import concurrent.futures
import json
import socket
import time

import pytest

from bert_mgpu.core.errors import OutOfMemory
from tests.support.served import LIMITS, Reverser

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
