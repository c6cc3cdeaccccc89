"""A server of this process, with a model that turns texts around."""

import socket
import threading
import time

import pytest

from bert_mgpu.serving.app import make_app
from bert_mgpu.serving.server import make_server
from tests.support.served import LIMITS, Client, Reverser


@pytest.fixture
def served():
    """served(model, limits) -> a Client of a server that runs in a thread."""
    running = []

    def start(model, limits=LIMITS, hosts=("127.0.0.1", "localhost", "::1")):
        listener = socket.create_server(("127.0.0.1", 0))
        app = make_app(model, limits, hosts)
        server = make_server(app, limits.seconds)
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
