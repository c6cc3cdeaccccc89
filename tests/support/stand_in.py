"""A process that is to others what a fork of `warm.py` is: its pipes, signals and end.

    python -IS tests/support/stand_in.py LINK COMMAND

COMMAND is what follows `python`; it runs in a fork of the process whose socket is in
the environment. LINK is the descriptor of a socket to the process that wants it, or 0
for none: it gets the fork's id, and both end when the other side is closed. This file
imports little, so that it costs 0.03 s.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

SOCKET = "BERT_MGPU_TESTS_FORK_AT"
LENGTH = 4  # bytes of a request's length


def main(link, *command):
    status, reported = os.pipe()
    request = {"command": command, "env": dict(os.environ), "cwd": os.getcwd()}
    message = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ[SOCKET])
        head = len(message).to_bytes(LENGTH, "big")
        socket.send_fds(server, [head], [0, 1, 2, reported])
        server.sendall(message)
    os.close(reported)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # the fork alone holds what these were
        os.dup2(nothing, number)
    with open(status, "rb", buffering=0) as lines:
        fork = int(lines.readline())

        def pass_on(number, frame):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(fork, number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, pass_on)
        watched = [status]
        if int(link):
            os.write(int(link), f"{fork}\n".encode())
            watched.append(int(link))
        ready, _, _ = select.select(watched, [], [])
        if status not in ready:
            return 1  # nobody waits for it; the fork ends with the pipe
        code = int(lines.readline())
    if code < 0:
        if -code != signal.SIGKILL:  # which has no handler to take away
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
