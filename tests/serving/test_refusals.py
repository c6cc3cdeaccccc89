"""The HTTP application: what it refuses, and that it goes on."""

import concurrent.futures
import json
import re
import socket
import time

import pytest

from bert_mgpu.core.errors import Diverged, OutOfMemory
from bert_mgpu.serving import server as server_lib
from tests.support.served import LIMITS, Reverser

DEEP = "[" * 100_000
# Body -> status; what is said of it.
REFUSED = {
    "": (400, "the body is not JSON"),
    "{": (400, "the body is not JSON"),
    "[]": (400, "the body is not a JSON object"),
    "7": (400, "the body is not a JSON object"),
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
    '{"instances": ["\\ud800"]}': (400, "an unpaired surrogate"),
    '{"instances": ["x"], "signature_name": "ids"}': (400, "signature_name"),
    json.dumps({"instances": ["x"] * 9}): (413, "9 rows: pass at most 8"),
    json.dumps({"instances": ["x" * 501]}): (413, "more than 500 characters"),
    json.dumps({"instances": ["x"], "y": "z" * 5000}): (413, "more than 4096 bytes"),
    DEEP: (413, "more than 4096 bytes"),
    DEEP[:4000]: (400, "the body is not JSON"),
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
    ({"Host": "localhost", "Origin": "http://[x"}, False),
]


@pytest.mark.parametrize(("headers", "taken"), HOSTS)
def test_foreign_hosts_and_origins(client, headers, taken):
    for method, path in (("GET", "/"), ("POST", "/v1/models/turn:predict")):
        body = {"instances": ["ab"]} if method == "POST" else None
        status, _, answer = client(method, path, body, **headers)
        assert status == (200 if taken else 403)
        assert taken or json.loads(answer)["error"]
    assert client("GET", "/healthz", **headers)[0] == 200  # probes know no names


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


@pytest.mark.parametrize(
    "error", [OutOfMemory("it does not fit"), Diverged("row 17"), KeyError("x")]
)
def test_errors_of_the_model(served, error):
    model = Reverser()
    client = served(model)
    model.error = error
    status, answer = client.predict({"instances": ["x"]})
    # Nothing of the cause is told: it may be of another client's row.
    assert (status, answer["error"]) == {
        OutOfMemory: (503, "the model is out of memory"),
        Diverged: (500, "the outputs of a row are not finite numbers"),
        KeyError: (500, "server error: see the server's log"),
    }[type(error)]
    model.error = None
    assert client.predict({"instances": ["ab"]})[0] == 200


def send(port, rows):
    """A connection on which rows were asked for."""
    body = json.dumps({"instances": rows}).encode()
    connection = socket.create_connection(("127.0.0.1", port), 30)
    connection.sendall(
        b"POST /v1/models/turn:predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    return connection


def waiting(client):
    text = client("GET", "/metrics")[2].decode()
    return float(re.findall(r"^bert_mgpu_waiting_rows (\S+)$", text, re.M)[0])


def until(wanted, value, seconds=10):
    """Waits for a value to become the wanted one."""
    end = time.monotonic() + seconds
    while value() != wanted:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_rows_of_a_client_who_left_make_room(served):
    """Nobody waits for them, so they are neither computed nor counted."""
    model = Reverser()
    client = served(model, LIMITS._replace(seconds=60))
    model.may_go.clear()
    taken = send(client.port, ["first"] * 4)  # a batch, which the model has taken
    assert until(True, model.asked.is_set) and until(0, lambda: waiting(client))
    with send(client.port, ["lost"] * 8):
        assert until(8, lambda: waiting(client))
    assert until(0, lambda: waiting(client))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        later = pool.submit(client.predict, {"instances": ["later"] * 8})
        assert until(8, lambda: waiting(client))
        model.may_go.set()
        assert later.result(30)[0] == 200
    assert "lost" not in model.seen and {"first", "later"} <= {*model.seen}
    taken.close()


def test_time_that_is_up_makes_room(served):
    model = Reverser()
    client = served(model, LIMITS._replace(seconds=0.5))
    model.may_go.clear()
    for _ in range(2):
        assert client.predict({"instances": ["x"] * 8})[0] == 503
    assert until(0, lambda: waiting(client))
    model.may_go.set()


def test_a_client_who_leaves_in_its_body_is_no_error(served, caplog):
    client = served(Reverser())
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        connection.sendall(
            b"POST /v1/models/turn:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 100\r\n\r\nabc"
        )
        time.sleep(0.2)

    def count():
        text = client("GET", "/metrics")[2].decode()
        return 'bert_mgpu_requests_total{status="499"} 1.0' in text

    assert until(True, count)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_row_that_fails_fails_alone(served):
    """Rows of others are answered, though they shared its batch."""
    model = Reverser()
    client = served(model)
    model.may_go.clear()
    model.bad = "bad"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(client.predict, {"instances": ["first"]})
        assert until(True, model.asked.is_set)
        rows = [["one"], ["bad"], ["two", "three"]]
        asked = [pool.submit(client.predict, {"instances": row}) for row in rows]
        assert until(4, lambda: waiting(client))
        model.may_go.set()
        statuses = [future.result(30)[0] for future in (first, *asked)]
    assert statuses == [200, 200, 500, 200]


def test_connections_without_a_request_are_ended(served, monkeypatch):
    monkeypatch.setattr(server_lib._IdleTimeoutProtocol, "head_seconds", 0.3)
    model = Reverser()
    client = served(model)
    for start in (b"", b"GET / HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
            connection.sendall(start)
            assert connection.recv(100) == b""  # ended
    # One that works is left alone.
    model.may_go.clear()
    with send(client.port, ["slow"]) as connection:
        time.sleep(1)
        model.may_go.set()
        assert b"200 OK" in connection.recv(65536)


def test_one_deadline_for_the_body_and_the_answer(served):
    """Each alone would be in time."""
    model = Reverser()
    client = served(model, LIMITS._replace(seconds=2))
    model.may_go.clear()
    body = json.dumps({"instances": ["x"]}).encode()
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        connection.sendall(
            b"POST /v1/models/turn:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        time.sleep(1.5)
        connection.sendall(body)
        time.sleep(1.5)
        model.may_go.set()
        assert b"HTTP/1.1 503" in connection.recv(65536)


def test_another_model_is_named(client):
    status, _, body = client("POST", "/v1/models/other:predict", {"instances": ["x"]})
    assert status == 404 and "/v1/models/turn is served" in json.loads(body)["error"]
