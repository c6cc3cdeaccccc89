"""How fast text becomes records beside Google's script, and in how much memory.

    python -m benchmarks.speed.data_prep [--runs=5] [--documents=300] [--skip_memory]

Speed: rows a second of processor time, whole runs on Chinese laws, one process each,
ten duplicates; runs are interleaved, medians count. Memory: the largest process of runs
with two workers over generated text of 50 and of 500 MB. Needs bert-tensorflow==1.0.4.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any

from benchmarks import corpora
from benchmarks.harness import RESULTS, ROOT, machine
from benchmarks.speed.workloads import VOCAB_FILE

GOOGLE = "google-research/bert"
SCRIPT = [sys.executable, str(ROOT / "data_prep" / "create_pretraining_data.py")]
OURS: dict[str, list[str]] = {
    "bert_mgpu": [],
    "bert_mgpu, whole words": ["--do_whole_word_mask=true"],
    "bert_mgpu, Chinese words by jieba": ["--segmenter=jieba"],
    "bert_mgpu, spans": ["--masking=span"],
}
SIZES = (50, 500)  # MB
MUST_BE_FASTER, MUST_STAY = 5.0, 1.05  # over Google's speed; memory at 500 MB over 50
LEAST_RUNS = 5  # with fewer, results are not written
_LETTERS = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动"
)


def googles_script(arguments: list[str]) -> None:
    """Runs the script's main under TensorFlow 2; this process does nothing else."""
    import tensorflow.compat.v1 as tf

    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from absl import flags
    from bert import create_pretraining_data

    tf.logging.set_verbosity(tf.logging.ERROR)
    flags.FLAGS(["x", *arguments])
    create_pretraining_data.main(None)


def _flags(text: pathlib.Path, output: pathlib.Path) -> list[str]:
    return [
        f"--input_file={text}",
        f"--output_file={output}",
        f"--vocab_file={VOCAB_FILE}",
    ]


def _count(path: pathlib.Path) -> int:
    from bert_mgpu.data import tfrecord

    return len(tfrecord.scan(path).sizes)


def _timed(command: list[str]) -> float:
    """Runs a command; the CPU seconds of its process and that one's children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, cwd=ROOT, check=True, **quiet)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speeds(documents: int, runs: int) -> dict[str, Any]:
    """Rows per second of CPU time, for each contestant."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        text, output = pathlib.Path(folder, "laws.txt"), pathlib.Path(folder, "out")
        chosen = [document for document in corpora.laws() if document][:documents]
        text.write_text("\n".join("".join(f"{s}\n" for s in d) for d in chosen))
        google = ["-m", "benchmarks.speed.data_prep", "--google", "--"]
        commands = {GOOGLE: [sys.executable, *google]}
        commands |= {name: [*SCRIPT, "--workers=1", *own] for name, own in OURS.items()}
        for _ in range(runs):
            for name, command in commands.items():
                seconds = _timed([*command, *_flags(text, output)])
                one = found.setdefault(name, {"rows": _count(output), "runs": []})
                one["runs"].append(round(one["rows"] / seconds))
    for one in found.values():
        one["rows_per_second"] = round(statistics.median(one["runs"]))
    return found


def generated(path: pathlib.Path, megabytes: int) -> None:
    """Writes a file of random documents of some 1,100 bytes each."""
    rng = random.Random(megabytes)
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1e6:
            for _ in range(rng.randint(4, 10)):
                file.write(
                    "".join(rng.choices(_LETTERS, k=rng.randint(20, 80))) + "。\n"
                )
            file.write("\n")


def _family(process: int) -> Iterable[int]:
    """The process and all its descendants."""
    yield process
    path = pathlib.Path(f"/proc/{process}/task/{process}/children")
    for child in path.read_text().split():
        yield from _family(int(child))


def peak(command: list[str]) -> int:
    """Runs a command; the peak MB of the largest of its processes."""
    most = 0
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    while running.poll() is None:
        with contextlib.suppress(OSError, KeyError):  # a process that has just ended
            for member in _family(running.pid):
                status = pathlib.Path(f"/proc/{member}/status").read_text()
                fields = dict(line.split(":", 1) for line in status.splitlines())
                most = max(most, int(fields["VmHWM"].removesuffix("kB")) // 1024)
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(f"{command} ended with {running.returncode}")
    return most


def memory() -> dict[str, int]:
    found = {}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        for size in SIZES:
            text, output = pathlib.Path(folder, "text"), pathlib.Path(folder, "out")
            generated(text, size)
            command = [*SCRIPT, "--workers=2", "--dupe_factor=1", *_flags(text, output)]
            found[f"{size} MB"] = peak(command)
    return found


def main() -> int:
    """Returns 1 if a figure misses its target, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--skip_memory", action="store_true")
    args = parser.parse_args()
    results = speeds(args.documents, args.runs)
    about = machine("bert-tensorflow")
    print(f"rows a second of processor time; median of {args.runs}; {about}\n")
    print("| script | rows | rows/s and core | times Google's |")
    print("|---|---:|---:|---:|")
    google = results[GOOGLE]["rows_per_second"]
    for name, one in results.items():
        rate = one["rows_per_second"]
        print(f"| {name} | {one['rows']:,} | {rate:,} | {rate / google:.2f} |")
    record = {"machine": about, "documents": args.documents, "results": results}
    times = results["bert_mgpu"]["rows_per_second"] / google
    met = times >= MUST_BE_FASTER
    print(
        f"\n{times:.2f} times Google's; >= {MUST_BE_FASTER}: {'yes' if met else 'NO'}"
    )
    if not args.skip_memory:
        (ROOT / "build").mkdir(exist_ok=True)
        record["peak_mb"] = peaks = memory()
        small, large = peaks.values()
        shown = ", ".join(f"{size}: {mb} MB" for size, mb in peaks.items())
        flat = large / small <= MUST_STAY
        met = met and flat
        print(
            f"largest process: {shown}; ratio {large / small:.3f}, <= {MUST_STAY}:",
            end="",
        )
        print(" yes" if flat else " NO")
        if args.runs >= LEAST_RUNS:
            path = RESULTS / "preparation.json"
            path.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:3] == ["--google", "--"]:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        googles_script(sys.argv[3:])
    else:
        sys.exit(main())
