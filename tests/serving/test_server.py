"""How the server ends."""

import http.client
import json
import socket
import threading

import pytest

from bert_mgpu.serving.app import make_app
from bert_mgpu.serving.server import make_server
from tests.support.served import LIMITS, Reverser


@pytest.mark.parametrize("count", [1, 12])
def test_requests_that_wait_to_be_accepted_are_answered(count):
    """They come between the server's last look at its connections and its end."""
    server = make_server(make_app(Reverser(), LIMITS, ["127.0.0.1"]), LIMITS.seconds)
    looked, sent = threading.Event(), threading.Event()

    async def last_tick():
        looked.set()
        assert sent.wait(60)  # the event loop hears of nothing

    server.main_loop = last_tick
    listener = socket.create_server(("127.0.0.1", 0), backlog=count)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    assert looked.wait(60)
    waiting = []
    for number in range(count):
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=60)
        body = json.dumps({"instances": [f"ab{number}"]})
        connection.request("POST", "/v1/models/turn:predict", body)
        waiting.append(connection)
    sent.set()
    for number, connection in enumerate(waiting):
        [answer] = json.loads(connection.getresponse().read())["predictions"]
        assert answer["label"] == f"ab{number}"[::-1]
    thread.join(60)
    assert not thread.is_alive()
