"""How fast bert_mgpu is and how much memory it takes, beside its peers and itself.

    python -m benchmarks.speed.train [--only=NAME,...] [--rounds=5]
      [--device=auto|cpu|gpu]

Contestants take turns in processes of their own. What was measured is printed beside
what must be reached: medians over the rounds of the ratios within a round. A figure
that is done is written to benchmarks/results/speed.json, all that are there to
speed.md: a run may end at any moment and go on later. "tokenizer" is taken from
the result of tokenizer.py. Exit code 1 if a figure of this run misses its
target or cannot be measured.

Where there is an NVIDIA GPU, the first one is measured, ten times as many steps a
round, with figures of 1, 2 and 4 towers on it besides; into speed_gpu.json and .md.

Fewer than five rounds, or those of a busy machine, are printed and not written. --trial
runs everything once with tiny models, only to see that it runs. Needs what `make bench`
installs, and ../shared.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
from typing import Any

from benchmarks.harness import (
    RESULTS,
    FailedError,
    Measured,
    OtherLoad,
    first_gpu,
    machine,
    measure,
    measure_memory,
)
from benchmarks.speed.ratios import Claim, Results
from benchmarks.speed.targets import FIGURES, GPU_FIGURES
from benchmarks.speed.workloads import MAX_ROUNDS

PACKAGES = ("tensorflow", "bert-tensorflow", "torch", "transformers")
ALL_FIGURES = FIGURES | GPU_FIGURES
# Figures with fewer rounds, or with more load from others, are not written: torch's
# threads wait for each other, so a busy machine slows it down more than us.
MIN_ROUNDS, MAX_OTHER_LOAD = 5, 0.1


def _arguments(
    maker: str, options: dict[str, Any], card: str | None, trial: bool
) -> list[str]:
    """The command-line arguments of a contestant's process."""
    if "shape" in options:
        shape = options["shape"]
        shape = shape.tiny() if trial else shape
        steps = shape.steps * (10 if card else 1)
        options = options | {"shape": shape._replace(steps=steps)}
    return ["-m", "benchmarks.speed.contestants", maker, json.dumps(options)]


def _tokenizers() -> tuple[Results, dict[str, Any]]:
    """The results of tokenizer.py, and its machine."""
    path = RESULTS / "tokenizer.json"
    if not path.exists():
        raise FailedError(f"{path} is not there: run benchmarks.speed.tokenizer first")
    record = json.loads(path.read_text())
    found = {
        name: Measured(each["runs"], 1, 0, 0, {"as_google": each["as_google"]})
        for name, each in record["results"].items()
    }
    found["all"] = Measured([], 1, 0, 0, {"texts": record["texts"]})
    return found, record["machine"]


def _judged(claim: Claim, found: Results) -> dict[str, Any]:
    values = claim.ratio(found)
    middle = statistics.median(values)
    met = {
        ">=": middle >= claim.target,
        "<=": middle <= claim.target,
        "1 +-": abs(middle - 1) <= claim.target,
        "": None,
    }
    judged = {"median": middle, "min": min(values), "max": max(values)}
    judged = {name: round(value, 4) for name, value in judged.items()}
    if claim.bound:
        judged |= {"bound": claim.bound, "target": claim.target}
    return judged | {"met": met[claim.bound]}


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


def run(name: str, rounds: int, card: str | None, trial: bool) -> dict[str, Any]:
    """Measures a figure. card: the name of the GPU to use; None: the CPU."""
    figure, cards = ALL_FIGURES[name], "0" if card else ""
    where = machine(*PACKAGES) | ({"gpu": card} if card else {})
    if figure.contestants or figure.memory:
        turns, memory = (
            {who: _arguments(*maker, card, trial) for who, maker in makers.items()}
            for makers in (figure.contestants, figure.memory)
        )
        others = OtherLoad()
        found = measure(turns, rounds, cards, _say)
        found |= measure_memory(memory, cards, figure.pooled, _say)
        where["other_load"] = round(others(), 3)
    else:
        found, where = _tokenizers()
    return {
        "what": figure.what,
        "machine": where,
        "contestants": {
            who: each.summary() for who, each in found.items() if who != "all"
        },
        "rows": [
            {"what": what, "claims": [_judged(claim, found) for claim in claims]}
            for what, claims in figure.rows.items()
        ],
    }


# -- the report -----------------------------------------------------------------


def met(row: dict[str, Any]) -> bool | None:
    """Whether a row reaches its target; None where it has none."""
    held = [claim["met"] for claim in row["claims"]]
    return None if None in held else any(held)


def _cells(row: dict[str, Any]) -> list[str]:
    measured, targets = [], []
    for claim in row["claims"]:
        text = f"{claim['median']:.2f}"
        if claim["min"] != claim["max"]:
            text += f" ({claim['min']:.2f}-{claim['max']:.2f})"
        measured.append(text)
        if "target" in claim:
            targets.append(f"{claim['bound']} {claim['target']:g}")
    verdict = {True: "yes", False: "**no**", None: ""}[met(row)]
    return ["; ".join(measured), " or ".join(targets) or "reported", verdict]


def _place(where: dict[str, Any]) -> str:
    text = f"{where['cores']} cores of {where['cpu']}"
    if "gpu" in where:
        text = f"{where['gpu']}, {text}"
    if "date" in where:
        text += f", {where['date']}"
    versions = (f"{n} {v}" for n, v in where.items() if n in ("python", *PACKAGES))
    return f"{text}; {', '.join(versions)}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _speed_and_memory(one: dict[str, Any]) -> list[str]:
    cells = [""] * 3
    if "rounds" in one:
        rate = one["per_second"]
        cells = [
            f"{rate:,.0f}" if rate > 1000 else f"{rate:.4g}",
            str(len(one["rounds"])),
            f"{one['seconds_per_step']:.3g}",
        ]
    memory = [one["start_mb"], one["peak_mb"]]
    return cells + [f"{value:,}" if value else "" for value in memory]


def markdown(figures: dict[str, Any]) -> str:
    rows = [
        "| figure | ratio | measured: median (min-max) | must reach | met |",
        "|---|---|---|---|---|",
    ]
    each = [
        "| figure | contestant | examples (or operations) a second | rounds"
        " | seconds a step | MB at the start | peak above that |",
        "|---|---|---|---|---|---|---|",
    ]
    places: dict[str, list[str]] = {}
    for name, record in figures.items():
        load = record["machine"].get("other_load")
        text = name if load is None else f"{name} {load:.0%}"
        places.setdefault(_place(record["machine"]), []).append(text)
        what = f"{name}: {record['what']}"
        rows += [_row([what, row["what"], *_cells(row)]) for row in record["rows"]]
        each += [
            _row([name, who, *_speed_and_memory(one)])
            for who, one in record["contestants"].items()
        ]
    where = [f"- {place}: {', '.join(names)}" for place, names in places.items()]
    heading = "Measured on (percentages: what others did to the machine meanwhile)"
    return "\n".join([*rows, "", *each, "", heading, "", *where, ""])


def write(report: pathlib.Path, name: str, record: dict[str, Any]) -> None:
    """Writes a figure into the report, keeping the others."""
    done = json.loads(report.read_text()) if report.exists() else {}
    done[name] = record
    figures = {name: done[name] for name in ALL_FIGURES if name in done}
    RESULTS.mkdir(exist_ok=True)
    temporary = report.with_suffix(".tmp")
    temporary.write_text(json.dumps(figures, indent=1) + "\n")
    temporary.replace(report)
    report.with_suffix(".md").write_text(markdown(figures))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help=f"of {', '.join(ALL_FIGURES)}")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--trial", action="store_true")
    arguments = parser.parse_args(words)
    card = None if arguments.device == "cpu" else first_gpu()
    if arguments.device == "gpu" and card is None:
        parser.error("--device=gpu: nvidia-smi shows none")
    report = RESULTS / ("speed_gpu.json" if card else "speed.json")
    names = list(ALL_FIGURES if card else FIGURES)
    if arguments.only:
        names = arguments.only.split(",")
    if unknown := set(names) - set(ALL_FIGURES):
        there = ", ".join(ALL_FIGURES)
        parser.error(f"no figure {', '.join(unknown)}; there are {there}")
    rounds = 1 if arguments.trial else arguments.rounds
    if not 1 <= rounds <= MAX_ROUNDS:
        parser.error(f"--rounds: from 1 to {MAX_ROUNDS}")
    failures = 0
    for name in names:
        print(f"{name}: {ALL_FIGURES[name].what}", flush=True)
        try:
            record = run(name, rounds, card, arguments.trial)
        except FailedError as error:
            print(f"  not measured: {error}", flush=True)
            failures += 1
            continue
        if arguments.trial:
            continue
        load = record["machine"].get("other_load", 0.0)
        print(f"  load of others: {load:.0%} of the machine")
        for row in record["rows"]:
            measured, target, verdict = _cells(row)
            print(f"  {row['what']}: {measured}; {target} {verdict}", flush=True)
            failures += met(row) is False
        if load > MAX_OTHER_LOAD:
            print(f"  not written: above {MAX_OTHER_LOAD:.0%} it is no fair comparison")
            failures += 1
        elif rounds >= MIN_ROUNDS:
            write(report, name, record)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
