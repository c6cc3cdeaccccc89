"""Speed and memory of make_rewrite_data.py, on ads and on ten times as many.

    python -m benchmarks.studies.rewrite_data

The ads are the train sets of advertisegen and taodescribe. Ten times as many are ten
copies whose segments end in the number of the copy, so that none is a duplicate and
the bank of phrases grows tenfold, too. Each run is a process of its own, whose peak
resident memory is measured. Writes benchmarks/results/rewrite_data.json. Needs
../shared.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.harness import RESULTS, SHARED, machine

SETS = SHARED / "data" / "rewrite_data"
SCRIPT = pathlib.Path(__file__).parents[2] / "data_prep" / "make_rewrite_data.py"
RUNS = {  # name -> copies, flags
    "1x": (1, ["--workers=1"]),
    "10x": (10, ["--workers=1"]),
    "1x, near": (1, ["--workers=1", "--negatives=near:1"]),
}


def ads() -> Iterator[str]:
    for line in (SETS / "advertisegen" / "train.jsonl").open(encoding="utf-8"):
        yield json.loads(line)["summary"]
    for line in (SETS / "taodescribe" / "train.tsv").open(encoding="utf-8"):
        yield line.rstrip("\n").split("\t")[-1]


def measured(flags: list[str]) -> tuple[float, float, float]:
    """Wall-clock seconds, CPU seconds and peak megabytes of a run."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, SCRIPT, *flags])
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, flags
    busy = used.ru_utime + used.ru_stime
    return time.perf_counter() - began, busy, used.ru_maxrss / 1000


def main() -> None:
    found: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (copies, flags) in RUNS.items():
            text = pathlib.Path(scratch, f"{copies}.txt")
            with text.open("w", encoding="utf-8") as file:
                for copy in range(copies):
                    end = str(copy) * (copies > 1)
                    for ad in ads():
                        file.write(re.sub("([。！!？，：]|$)", rf"{end}\1", ad) + "\n")
            paths = [f"--input_file={text}", f"--output_dir={scratch}/out"]
            seconds, busy, peak = measured(paths + flags)
            size = text.stat().st_size / 1e6
            found[name] = {
                "mb": round(size, 2),
                "seconds": round(seconds, 1),
                "processor_seconds": round(busy, 1),
                "mb_a_second": round(size / seconds, 2),
                "peak_mb": round(peak),
            }
            print(name, found[name], flush=True)
    path = RESULTS / "rewrite_data.json"
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
