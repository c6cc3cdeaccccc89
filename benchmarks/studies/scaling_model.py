"""How well should training scale from 1 to 1,024 GPUs, and how far off is that guess?

    python -m benchmarks.studies.scaling_model    # tables, docs/scaling.png, results

A step computes, waits for the slowest GPU, sums gradients over the network and updates
the weights. Efficiency is the speed of a GPU among n over that of one alone. Nothing is
measured here: it is arithmetic on data sheets, compared with published results. Both
are in benchmarks/results/scaling_model.json; predictions are written beside them.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import harness
from benchmarks.harness import ROOT

RESULTS = harness.RESULTS / "scaling_model.json"

# -- the maths: seconds, bytes, bytes per second --------------------------------


class Link(NamedTuple):
    """A message of m bytes takes latency + m / bandwidth (Hockney 1994)."""

    latency: float
    bandwidth: float  # in one direction, as reached by an all-reduce


class Cluster(NamedTuple):
    per_node: int  # GPUs
    inside: Link  # from a GPU to the others of its node
    between: Link  # from a node to others, all its adapters together
    memory: float  # bandwidth of a GPU's memory


class Net(NamedTuple):
    parameters: float
    wire: int  # bytes of a gradient's value on the network
    overlap: float = 0.0  # share of a turn's computation that hides communication


Reduce = Callable[[float, int, Cluster], float]  # bytes, GPUs, cluster -> seconds


def ring(size: float, n: int, link: Link) -> float:
    """2 (n - 1) messages of size / n bytes (Patarasuk & Yuan 2009).

    No all-reduce sends fewer bytes; halving and doubling (Rabenseifner 2004) sends as
    many in 2 log2(n) messages, which saves nothing but latency.
    """
    return 2 * (n - 1) * (link.latency + size / n / link.bandwidth)


def flat(size: float, n: int, cluster: Cluster) -> float:
    """A ring over all GPUs: every round waits for the slowest link in it."""
    link = cluster.inside
    if n > cluster.per_node:
        slow = min(link.bandwidth, cluster.between.bandwidth)
        link = Link(cluster.between.latency, slow)
    return ring(size, n, link)


def hierarchical(size: float, n: int, cluster: Cluster) -> float:
    """Reduce-scatter inside the node, rings over the nodes, all-gather inside."""
    # Each GPU of a node sends its share of the bytes in a ring of its own, with its
    # share of the adapters, as in Horovod's NCCLHierarchicalAllreduce.
    nodes = math.ceil(n / cluster.per_node)
    inside = ring(size, min(n, cluster.per_node), cluster.inside)
    return inside + ring(size, nodes, cluster.between)


def slowest(n: int) -> float:
    """The expected maximum of n normal numbers, in standard deviations (Blom 1958)."""
    return statistics.NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def step_seconds(
    net: Net,
    cluster: Cluster,
    n: int,
    turn: float,
    turns: int,
    spread: float,
    reduce: Reduce = flat,
) -> float:
    """The time of a step. turn: of a forward and backward pass; turns: per update.

    spread: the standard deviation of the GPUs' times, as a share of their mean.
    """
    waited = reduce(net.wire * net.parameters, n, cluster) - net.overlap * turn
    update = 28 * net.parameters / cluster.memory  # Adam reads w g m v, writes w m v
    return turns * turn * (1 + spread * slowest(n)) + max(0.0, waited) + update


def turn_seconds(
    net: Net, cluster: Cluster, n: int, step: float, turns: int, spread: float
) -> float:
    """The inverse of step_seconds for a flat ring, for one GPU or without overlap."""
    rest = step - step_seconds(net, cluster, n, 0.0, turns, spread)
    return rest / turns / (1 + spread * slowest(n))


def flops(layers: int, width: int, length: int) -> float:
    """FLOPs of a row's three passes, vocabulary aside (Narayanan et al. 2021, 5.1)."""
    return 72 * layers * length * width**2 * (1 + length / (6 * width))


# -- compared with published results --------------------------------------------

DATA = json.loads(RESULTS.read_text())
LINKS = {name: Link(a, share * b) for name, (a, b, share) in DATA["links"].items()}
NETS = {name: Net(**values) for name, values in DATA["nets"].items()}
CLUSTERS = {
    name: Cluster(per_node, LINKS[inside], LINKS[between], memory)
    for name, (per_node, inside, between, memory) in DATA["clusters"].items()
}
WHOLE_JOBS = "FG"  # sources that time start, checkpoints and evaluation: not fitted


class Run(NamedTuple):
    """A published result. Pairs: a base of one GPU or one node, and the large run."""

    source: str
    net: str
    cluster: str
    gpus: Sequence[int]
    what: str
    rows: int  # per GPU in a turn
    turns: Sequence[int]  # per update
    rates: Sequence[float]  # rows per second of all GPUs

    def published(self) -> float:
        return self.rates[1] / self.gpus[1] / (self.rates[0] / self.gpus[0])

    def predicted(self, spread: float) -> float:
        cluster, net, turns = CLUSTERS[self.cluster], NETS[self.net], self.turns
        of_gpu = self.rates[0] / self.gpus[0]
        step = turns[0] * self.rows / of_gpu
        turn = turn_seconds(net, cluster, self.gpus[0], step, turns[0], spread)
        step = step_seconds(net, cluster, self.gpus[1], turn, turns[1], spread)
        return turns[1] * self.rows / step / of_gpu

    def error(self, spread: float) -> float:
        """In percentage points of efficiency; above 0 if the prediction is too high."""
        return 100 * (self.predicted(spread) - self.published())


RUNS = [Run(**{key: row[key] for key in Run._fields}) for row in DATA["published"]]


def mean_error(runs: Sequence[Run], spread: float) -> float:
    return statistics.fmean(abs(run.error(spread)) for run in runs)


def fitted(runs: Sequence[Run]) -> float:
    """The spread with the smallest mean error, to the nearest thousandth."""
    return min((x / 1000 for x in range(101)), key=lambda x: mean_error(runs, x))


def left_out(runs: Sequence[Run], alike: Callable[[Run, Run], bool]) -> float:
    """The mean error of runs, each with the spread fitted to the runs unlike it."""
    spreads = [fitted([x for x in runs if not alike(x, run)]) for run in runs]
    return statistics.fmean(abs(r.error(x)) for r, x in zip(runs, spreads, strict=True))


def errors() -> dict[str, float]:
    """The fitted spread, and errors in percentage points."""
    steps = [run for run in RUNS if run.source not in WHOLE_JOBS]
    jobs = [run for run in RUNS if run.source in WHOLE_JOBS]
    spread = fitted(steps)
    return {
        "spread": spread,
        "mean error of steps": mean_error(steps, spread),
        "the same without a spread": mean_error(steps, 0.0),
        "spread of the other runs": left_out(steps, lambda x, y: x == y),
        "spread of other sources": left_out(steps, lambda x, y: x.source == y.source),
        "worst of steps": max((run.error(spread) for run in steps), key=abs),
        "mean error of whole jobs": mean_error(jobs, spread),
        "worst of whole jobs": max((run.error(spread) for run in jobs), key=abs),
        "mean of all, signed": statistics.fmean(run.error(spread) for run in RUNS),
    }


# -- what to expect -------------------------------------------------------------

MODELS = {"BERT-base": (12, 768), "BERT-large": (24, 1024)}  # layers, width
LENGTH, ACHIEVED = 128, 100e12  # FLOP/s of an A100: 99 in the SQuAD of source A
SIZES = [2**power for power in range(11)]
BETWEEN = ("10 Gbit/s", "25 Gbit/s", "100 Gbit/s", "200 Gbit/s", "8 x 200 Gbit/s")


class Case(NamedTuple):
    """A setting on nodes of 8 A100."""

    model: str
    between: str = "25 Gbit/s"
    turns: int = 1
    rows: int = 32
    wire: int = 4
    inside: str = "NVLink 3"
    reduce: Reduce = flat

    def efficiency(self, n: int, spread: float) -> float:
        net = NETS[self.model]._replace(wire=self.wire)
        cluster = Cluster(8, LINKS[self.inside], LINKS[self.between], 2039e9)
        turn = self.rows * flops(*MODELS[self.model], LENGTH) / ACHIEVED
        args = turn, self.turns, spread, self.reduce
        one, many = (step_seconds(net, cluster, x, *args) for x in (1, n))
        return one / many

    def overtakes(self, spread: float) -> int | None:
        """The smallest power of two of GPUs that are faster than one node."""
        node = 8 * self.efficiency(8, spread)
        more = (n for n in SIZES[4:] if n * self.efficiency(n, spread) > node)
        return next(more, None)


CASES: dict[str, dict[str, Any]] = {
    **{name: {"between": name} for name in BETWEEN},
    **{f"{name}, 8 micro-batches": {"between": name, "turns": 8} for name in BETWEEN},
    "25, PCIe in the node": {"inside": "PCIe 3"},
    "25, hierarchical": {"reduce": hierarchical},
    "25, float16 sums": {"wire": 2},
    "25, 128 rows a GPU": {"rows": 128},
    "25, float16, 128, 8 micro-batches": {"wire": 2, "rows": 128, "turns": 8},
}


def markdown(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(map(str, line))}|" for line in lines) + "\n"


def published_table(spread: float) -> str:
    rows = []
    for run in RUNS:
        shares = (f"{100 * x:.1f}" for x in (run.published(), run.predicted(spread)))
        where = run.source, run.net, run.cluster, "{} to {}".format(*run.gpus)
        error = round(run.error(spread), 1) + 0.0  # not -0.0
        rows.append([*where, run.what, *shares, f"{error:+.1f}"])
    head = "source", "net", "cluster", "GPUs", "what", "published", "predicted", "error"
    return markdown(head, rows)


def predicted_table(model: str, spread: float) -> str:
    """Efficiencies in percent, then the fewest GPUs that are faster than one node."""
    rows = []
    for name, change in CASES.items():
        case = Case(model, **change)
        found = [round(100 * case.efficiency(n, spread)) for n in SIZES]
        rows.append([name, *found, case.overtakes(spread) or "none"])
    return markdown([model, *SIZES, "> 8"], rows)


def plot(spread: float) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9.6, 5), layout="constrained")
    for axes, model in zip(panels, MODELS, strict=True):
        for i, name in enumerate(BETWEEN):
            for turns, style in ((1, "--"), (8, "-")):
                case = Case(model, name, turns)
                shares = [100 * case.efficiency(n, spread) for n in SIZES]
                label = f"{name}, {turns}"
                axes.plot(SIZES, shares, style, color=f"C{i}", label=label)
        axes.set_xscale("log", base=2)
        axes.set_xticks(SIZES, SIZES, rotation=45)
        axes.set(title=model, xlabel="GPUs, 8 a node", ylabel="efficiency, %")
        axes.set_ylim(0, 102)
        axes.grid(alpha=0.3)
    names = axes.get_legend_handles_labels()
    title = "network, micro-batches per step"
    place = {"loc": "outside lower center", "ncols": 5}
    figure.legend(*names, title=title, fontsize="small", **place)
    figure.savefig(ROOT / "docs" / "scaling.png", dpi=120)


def main() -> None:
    found = errors()
    spread = found["spread"]
    print(published_table(spread))
    print(markdown(["", ""], [(key, f"{value:.3g}") for key, value in found.items()]))
    for model in MODELS:
        print(predicted_table(model, spread))
    plot(spread)
    for row, run in zip(DATA["published"], RUNS, strict=True):
        row |= {"efficiency": run.published(), "predicted": run.predicted(spread)}
    cases = [(x, name, Case(x, **y)) for x in MODELS for name, y in CASES.items()]
    DATA["errors"], DATA["predicted"] = found, {model: {} for model in MODELS}
    for model, name, case in cases:
        shares = {n: round(case.efficiency(n, spread), 4) for n in SIZES}
        DATA["predicted"][model][name] = shares
    RESULTS.write_text(json.dumps(DATA, indent=1) + "\n")


if __name__ == "__main__":
    main()
