"""Answers that wait to be read: dropped where nobody does, kept where somebody does."""

import contextlib
import socket
import time

import pytest

from bert_mgpu.serving import server as server_lib
from tests.support.served import Reverser


@contextlib.contextmanager
def small_socket(client):
    """A connection that holds little of what is not read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", client.port))
        yield connection


def read(connection, size):
    """Up to a number of bytes, fewer where the connection ends: how many."""
    received = 0
    with contextlib.suppress(ConnectionError):
        while received < size and (part := connection.recv(1 << 20)):
            received += len(part)
    return received


GET_REPORT = b"GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("reads", [True, False])
def test_an_answer_that_nobody_reads_is_dropped(served, tmp_path, monkeypatch, reads):
    """One that is read slowly is not."""
    monkeypatch.setattr(server_lib._IdleTimeoutProtocol, "head_seconds", 0.3)
    page = tmp_path / "report.html"
    page.write_bytes(b"x" * (64 << 20))  # more than the sockets hold
    client, received = served(Reverser(report=page)), 0
    with small_socket(client) as connection:
        connection.sendall(GET_REPORT)
        for _ in range(8):
            time.sleep(0.2)
            received += len(connection.recv(4 << 20)) if reads else 0
        received += read(connection, (64 << 20) + 1 - received)  # with the head
    assert (received > 64 << 20) == reads


def test_the_next_answer_is_not_taken_for_an_unread_one(served, tmp_path, monkeypatch):
    """More waits than at the look before, but all of that was read."""
    monkeypatch.setattr(server_lib._IdleTimeoutProtocol, "head_seconds", 1.0)
    page = tmp_path / "report.html"
    client = served(Reverser(report=page))
    with small_socket(client) as connection:
        for size, seconds in ((32 << 20, 1.1), (48 << 20, 0.9)):  # a look in each
            page.write_bytes(b"x" * size)
            connection.sendall(GET_REPORT)
            time.sleep(seconds)
            head, _, body = connection.recv(1 << 20).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert len(body) + read(connection, size - len(body)) == size
