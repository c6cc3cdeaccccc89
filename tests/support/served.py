"""A model that turns texts around, its limits, and a client of its server."""

import contextlib
import http.client
import json
import socket
import threading

from bert_mgpu.serving.bodies import Limits

LIMITS = Limits(body=4096, rows=8, characters=500, waiting=12, seconds=5)


class Reverser:
    """A model whose answer to a text is the text turned around."""

    name, batch = "turn", 4
    poolings = ("mean", "cls")
    width = 3

    def __init__(self, inputs=("text_a",), report=None):
        self.inputs, self.report = inputs, report
        self.titles = ("text", "second")[: len(inputs)]
        self.may_go, self.asked = threading.Event(), threading.Event()
        self.may_go.set()
        self.error = self.bad = None  # raised: for all rows, for those with this text
        self.seen = []

    def example(self, *texts):
        return texts

    def answer(self, examples):
        self.asked.set()
        self.may_go.wait(30)
        self.seen += [text for texts in examples for text in texts]
        if self.error or (self.bad,) in examples:
            raise self.error or ArithmeticError(self.bad)
        return [{"label": "|".join(e)[::-1], "class": len(e)} for e in examples]

    def encode(self, texts, pooling, normalize):
        self.seen += texts
        return [
            ([float(len(text)), self.poolings.index(pooling), normalize], len(text) + 2)
            for text in texts
        ]

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
