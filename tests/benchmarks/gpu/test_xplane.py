"""What is read from a trace that is made up: kernels, copies, gaps, idle shares."""

import pytest

from benchmarks.gpu import xplane

US = 1_000_000  # picoseconds


@pytest.fixture(scope="module")
def xplane_pb2():
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2


@pytest.fixture
def space(xplane_pb2):
    """Two steps of a card with two streams, beside a host.

    Stream 1: gemm 0-10, 20-30 and norm 30-35 us; stream 2, 5 us later by its own
    clock: a copy 5-12, a fill 40-50. Idle: 12-20 and 35-40 of 50.
    """
    space = xplane_pb2.XSpace()
    space.planes.add(name="/host:CPU").lines.add(name="python").events.add(
        metadata_id=1, offset_ps=0, duration_ps=1000 * US
    )
    card = space.planes.add(name="/device:GPU:0")
    names = {1: "gemm", 2: "norm", 3: "MemcpyD2H", 4: "Memset"}
    for number, name in names.items():
        card.event_metadata[number].id = number
        card.event_metadata[number].name = name
    streams = {
        ("Stream #1(Compute)", 1_000_000): [(1, 0, 10), (1, 20, 10), (2, 30, 5)],
        ("Stream #2(MemcpyD2H,Memset)", 1_005_000): [(3, 0, 7), (4, 35, 10)],
        # Derived from the streams: the same time again.
        ("XLA Ops", 1_000_000): [(1, 0, 50)],
    }
    for (name, begin_ns), events in streams.items():
        line = card.lines.add(name=name, timestamp_ns=begin_ns)
        for number, start, length in events:
            line.events.add(
                metadata_id=number, offset_ps=start * US, duration_ps=length * US
            )
    space.planes.add(name="/device:GPU:1")  # which did nothing
    return space


def test_idle_time_kernels_and_copies(space):
    (card,) = xplane.cards_of(space, steps=2)
    assert card["device"] == "/device:GPU:0"
    assert card["traced_ms"] == 0.05
    assert card["idle_share"] == pytest.approx(13 / 50)
    assert card["idle_ms_a_step"] == pytest.approx(0.0065)
    assert card["gaps_a_step"] == 1
    assert card["longest_gaps_ms"] == [0.008, 0.005]
    assert card["kernels_a_step"] == 1.5
    assert card["kernel_ms_a_step"] == pytest.approx(0.0125)
    assert card["kernels"] == [
        {"name": "gemm", "ms_a_step": 0.01, "times_a_step": 1.0},
        {"name": "norm", "ms_a_step": 0.0025, "times_a_step": 0.5},
    ]
    assert [copy["name"] for copy in card["copies"]] == ["Memset", "MemcpyD2H"]


def test_the_longest_kernels_alone_are_kept(xplane_pb2):
    plane = xplane_pb2.XPlane(name="/device:GPU:0")
    line = plane.lines.add(name="Stream #1")
    for number in range(40):
        plane.event_metadata[number].name = f"kernel {number}"
        line.events.add(
            metadata_id=number, offset_ps=number * US, duration_ps=(number + 1) * 1000
        )
    kernels = xplane.summary(plane, 1)["kernels"]
    assert len(kernels) == xplane.TOP and kernels[0]["name"] == "kernel 39"


def test_gaps_of_streams_that_overlap():
    events = [
        xplane.Event("", *times) for times in [(0, 10), (2, 4), (5, 12), (15, 16)]
    ]
    assert xplane.gaps(events) == [3]


def test_a_trace_without_cards(xplane_pb2, tmp_path):
    space = xplane_pb2.XSpace()
    space.planes.add(name="/host:CPU")
    assert xplane.cards_of(space, 5) == []
    with pytest.raises(FileNotFoundError, match="the profiler wrote nothing"):
        xplane.read(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "host.xplane.pb").write_bytes(space.SerializeToString())
    assert xplane.read(tmp_path) == space
