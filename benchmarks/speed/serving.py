"""What a loaded model and a server cost beside the prediction of a file.

    python -m benchmarks.speed.serving FOLDER FILE --minutes=10 --clients=64

FOLDER is a trained model, FILE has a text a line. The same texts are predicted by the
script, by `bert_mgpu.load`, and by clients of `bert_mgpu serve`, one text a request,
one after the other and many at once. benchmarks/results/serving.json gets the ratios of
texts a second, the times of requests and the memory of the server on the way.
"""

from __future__ import annotations

import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import harness

RESULT = harness.RESULTS / "serving.json"
ROUNDS = 5  # of each contestant, in turns


def by_script(folder: pathlib.Path, file: pathlib.Path, count: int) -> float:
    """Texts per second of the pass over the file, from the script's log."""
    command = [
        *(sys.executable, "run_classifier_mgpu.py", f"--output_dir={folder}"),
        *("--do_predict=true", f"--predict_file={file}", "--predict_format=text"),
    ]
    log = subprocess.run(
        command, cwd=harness.ROOT, capture_output=True, text=True, check=True
    ).stderr
    seconds = re.findall(r"rows in ([\d.]+) s", log)
    return count / float(seconds[-1])


class Loaded:
    """A process that predicts the texts with `bert_mgpu.load` on request."""

    CODE = """
import pathlib, sys, time
import bert_mgpu
texts = pathlib.Path(sys.argv[2]).read_text("utf-8").splitlines()
model = bert_mgpu.load(sys.argv[1])
model.predict(texts)
print("ready", flush=True)
for _ in sys.stdin:
    began = time.perf_counter()
    model.predict(texts)
    print(time.perf_counter() - began, flush=True)
"""

    def __init__(self, folder: pathlib.Path, file: pathlib.Path):
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(folder), str(file)],
            cwd=harness.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def seconds(self) -> float:
        assert self._process.stdin
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Server:
    """`bert_mgpu serve` in a process of its own."""

    def __init__(self, folder: pathlib.Path):
        command = [sys.executable, "-m", "bert_mgpu", "serve", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--port=0", "--report=false"],
            cwd=harness.ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        self.process.stderr.readline()  # that it is loading
        match = re.search(
            r"serving (\S+) at http://127.0.0.1:(\d+) ", self.process.stderr.readline()
        )
        assert match
        self.name, self.port = match[1], int(match[2])

    def megabytes(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def ask(self, texts: Sequence[str], until: float, times: list[float]) -> int:
        """A client: sends one text per request until the time is up; counts errors."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        faults, number = 0, 0
        while time.monotonic() < until:
            body = json.dumps({"instances": [texts[number % len(texts)]]})
            began = time.perf_counter()
            connection.request("POST", f"/v1/models/{self.name}:predict", body)
            response = connection.getresponse()
            answer = json.loads(response.read())
            times.append(time.perf_counter() - began)
            faults += response.status != 200 or len(answer["predictions"]) != 1
            number += 1
        connection.close()
        return faults


def clients(server: Server, texts: Sequence[str], count: int, seconds: float) -> Any:
    """The figures of `count` clients at once."""
    began = time.monotonic()
    times: list[list[float]] = [[] for _ in range(count)]
    faults = [0] * count

    def run(client: int) -> None:
        own = [*texts[client:], *texts[:client]]
        faults[client] = server.ask(own, began + seconds, times[client])

    threads = [threading.Thread(target=run, args=(client,)) for client in range(count)]
    for thread in threads:
        thread.start()
    memory = []
    while any(thread.is_alive() for thread in threads):
        memory.append(server.megabytes())
        time.sleep(seconds / 20)
    for thread in threads:
        thread.join()
    took = sorted(second for own in times for second in own)
    return {
        "clients": count,
        "texts_per_second": len(took) / seconds,
        "p50_ms": 1000 * took[len(took) // 2],
        "p99_ms": 1000 * took[int(0.99 * len(took))],
        "errors": sum(faults),
        "memory_mb": [round(each) for each in (memory[1], max(memory), memory[-1])],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    flags = parser.parse_args()
    folder, file = flags.folder.resolve(), flags.file.resolve()
    texts = file.read_text("utf-8").splitlines()
    loaded, script, in_python = Loaded(folder, file), [], []
    for _ in range(ROUNDS):
        script.append(by_script(folder, file, len(texts)))
        in_python.append(len(texts) / loaded.seconds())
    loaded.close()
    server = Server(folder)
    try:
        clients(server, texts, 1, 5)  # warms up: shapes are traced
        clients(server, texts, flags.clients, 20)
        alone = clients(server, texts, 1, 30)
        many = clients(server, texts, flags.clients, 60 * flags.minutes)
    finally:
        server.process.terminate()
        server.process.wait()
    base = statistics.median(script)
    result = {
        "machine": harness.machine("tensorflow", "starlette", "uvicorn"),
        "texts": len(texts),
        "script_texts_per_second": base,
        "loaded_over_script": statistics.median(in_python) / base,
        "served_over_script": many["texts_per_second"] / base,
        "one_client": alone,
        "many_clients": many,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
