"""The arithmetic of benchmarks/studies/scaling_model.py, worked out by hand."""

import pytest

from benchmarks.studies import scaling_model as model

MB, GB = 1e6, 1e9
LINK = model.Link(1e-6, 10 * GB)
# Two GPUs a node, 10 GB/s inside and 1 GB/s between, no latency.
CLUSTER = model.Cluster(2, model.Link(0.0, 10 * GB), model.Link(0.0, GB), 1000 * GB)
NET = model.Net(100e6, 4)


@pytest.mark.parametrize(
    ("n", "seconds"),
    [
        (1, 0.0),
        (2, 0.010002),  # 2 messages of 50 MB: 5 ms and a microsecond each
        (4, 0.015006),  # 6 of 25 MB: 2.5 ms
    ],
)
def test_ring(n, seconds):
    assert model.ring(100 * MB, n, LINK) == pytest.approx(seconds, rel=1e-12)


def test_a_long_ring_moves_the_bytes_twice():
    link = LINK._replace(latency=0.0)
    # 2 x 100 MB at 10 GB/s, less the millionth part.
    assert model.ring(100 * MB, 10**6, link) == pytest.approx(0.02, rel=1.1e-6)


def test_two_levels():
    # 2 x 50 MB / (10 GB/s) inside, 2 x 50 MB / (1 GB/s) between.
    assert model.hierarchical(100 * MB, 4, CLUSTER) == pytest.approx(0.11)
    assert model.flat(100 * MB, 4, CLUSTER) == pytest.approx(
        0.15
    )  # 6 x 25 MB at 1 GB/s


@pytest.mark.parametrize("name", model.CLUSTERS)
def test_of_one_node_both_are_the_same(name):
    cluster = model.CLUSTERS[name]
    for n in range(1, cluster.per_node + 1):
        sums = (f(100 * MB, n, cluster) for f in (model.flat, model.hierarchical))
        assert next(sums) == next(sums)


@pytest.mark.parametrize(
    ("n", "exact"),
    [(2, 0.56419), (10, 1.53875), (100, 2.50759)],  # Harter 1961, table 1
)
def test_slowest(n, exact):
    assert model.slowest(1) == 0
    assert model.slowest(n) == pytest.approx(exact, abs=0.026)


@pytest.mark.parametrize(
    ("overlap", "seconds"),
    [
        # 3 turns; 2 x 200 MB at 10 GB/s; 28 bytes of 100M parameters at 1 TB/s.
        (0.0, 0.3 + 0.04 + 0.0028),
        (0.25, 0.3 + 0.04 - 0.025 + 0.0028),  # a quarter of one turn
        (0.5, 0.3 + 0.0028),  # 50 ms would hide 40
    ],
)
def test_step(overlap, seconds):
    net = NET._replace(overlap=overlap)
    actual = model.step_seconds(net, CLUSTER, 2, turn=0.1, turns=3, spread=0.0)
    assert actual == pytest.approx(seconds, rel=1e-12)


def test_a_spread_slows_computing_alone():
    even, uneven = (
        model.step_seconds(NET, CLUSTER, 4, turn=0.1, turns=3, spread=x)
        for x in (0.0, 0.05)
    )
    assert uneven - even == pytest.approx(0.3 * 0.05 * model.slowest(4))


def test_a_turn_is_found_again():
    step = model.step_seconds(NET, CLUSTER, 4, turn=0.1, turns=3, spread=0.05)
    assert model.turn_seconds(NET, CLUSTER, 4, step, 3, 0.05) == pytest.approx(0.1)


def test_flops():
    # 24 D^2 + 4 T D of a layer and a token, forward: 25,165,824 + 524,288; 24 layers,
    # 128 tokens, and 3, a backward pass being two forward ones.
    assert model.flops(24, 1024, 128) == pytest.approx(236_760_072_192, rel=1e-12)


@pytest.mark.parametrize("net", model.MODELS)
def test_one_gpu_is_efficient(net):
    for change in model.CASES.values():
        assert model.Case(net, **change).efficiency(1, spread=0.05) == 1


def test_published_efficiencies():
    """As the sources print them: times as fast, percent, shares of the all-reduce."""
    of = {source: [x for x in model.RUNS if x.source == source] for source in "ACDE"}
    assert 16 * of["A"][0].published() == pytest.approx(14.9, abs=0.05)
    assert 32 * of["C"][2].published() == pytest.approx(30.37, abs=0.005)
    horovod = [x.published() for x in of["E"]]
    assert horovod == pytest.approx([0.9, 0.9, 0.68], abs=1e-4)
    reduced = [1 - x.published() for x in of["D"]]
    assert reduced == pytest.approx([0.94, 0.93, 0.83, 0.75, 0.69, 0.44], abs=0.005)


def test_results_are_those_of_the_code():
    assert model.errors() == pytest.approx(model.DATA["errors"])
