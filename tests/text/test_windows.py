"""The windows of long texts, and the core of each."""

import ast
import collections
import importlib.util
import tracemalloc

import numpy as np
import pytest

from bert_mgpu.text.windows import windows

Span = collections.namedtuple("Span", "start length")


@pytest.fixture(scope="module")
def is_max_context():
    """Google's own function, without its module, whose import defines absl flags."""
    path = importlib.util.find_spec("bert").submodule_search_locations[0]
    with open(f"{path}/run_squad.py") as file:
        tree = ast.parse(file.read())
    tree.body = [
        node
        for node in tree.body
        if getattr(node, "name", "") == "_check_is_max_context"
    ]
    names = {}
    exec(compile(tree, "run_squad.py", "exec"), names)
    return names["_check_is_max_context"]


def documents(count, seed):
    """(sizes of units, room, stride) of documents of several windows."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        room = int(draw.integers(1, 60))
        sizes = draw.integers(1, draw.integers(2, 6), draw.integers(room, 200))
        yield sizes, room, int(draw.integers(1, room + 1))


def _all(offsets, room, stride):
    """The first tokens and the lengths of all windows, one after the other."""
    first = [0]
    while offsets[-1] - offsets[first[-1]] > room:
        ends = [
            u for u in range(len(offsets)) if offsets[u] <= offsets[first[-1]] + stride
        ]
        first.append(max(first[-1] + 1, ends[-1]))
    last = [max(offsets[offsets <= offsets[each] + room]) for each in first]
    starts = offsets[first].tolist()
    return starts, [int(end) - start for start, end in zip(starts, last, strict=True)]


def test_owners_are_those_of_google(is_max_context):
    several = 0
    for sizes, room, stride in documents(1000, 1):
        made = windows(sizes, room, stride)
        offsets = np.concatenate([[0], np.cumsum(np.minimum(sizes, room))])
        lengths = offsets[made.ends] - offsets[made.starts]
        spans = [*map(Span, offsets[made.starts].tolist(), lengths.tolist())]
        owners = np.repeat(np.arange(len(spans)), made.core_ends - made.core_starts)
        assert len(owners) == len(sizes)
        several += len(spans) > 1
        # Among all windows, those too that are left out as they have no core.
        every = [*map(Span, *_all(offsets, room, stride))]
        for unit, owner in enumerate(owners):
            assert is_max_context(every, every.index(spans[owner]), offsets[unit])
    assert several > 900


def test_each_unit_is_in_one_core_and_no_window_is_too_long():
    for sizes, room, stride in documents(1000, 2):
        made = windows(sizes, room, stride)
        assert made.core_starts[0] == 0 and made.core_ends[-1] == len(sizes)
        assert (made.core_starts[1:] == made.core_ends[:-1]).all()
        assert (made.core_starts < made.core_ends).all()
        assert (made.starts <= made.core_starts).all()
        assert (made.core_ends <= made.ends).all()
        offsets = np.concatenate([[0], np.cumsum(np.minimum(sizes, room))])
        assert (offsets[made.ends] - offsets[made.starts] <= room).all()


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], ([0], [0], [0], [0])),
        ([2, 2], ([0], [2], [0], [2])),
        ([9], ([0], [1], [0], [1])),  # longer than a window
        # Starts at tokens 0, 2, 4 and 6; the two borders are halfway.
        ([1] * 10, ([0, 2, 4, 6], [4, 6, 8, 10], [0, 3, 5, 7], [3, 5, 7, 10])),
        ([3, 3, 3], ([0, 1, 2], [1, 2, 3], [0, 1, 2], [1, 2, 3])),
    ],
)
def test_windows_of_four_tokens(sizes, wanted):
    made = windows(np.array(sizes, int), 4, 2)
    assert [*map(list, made)] == [*wanted]


def test_a_very_long_text_takes_little_memory():
    """As a CoNLL file without blank lines is: all of it is one sentence."""
    tracemalloc.start()
    try:
        made = windows(np.ones(200_000, int), 126, 63)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20  # bytes, not those of all pairs of windows and tokens
    assert made.core_ends[-1] == 200_000
    assert (np.diff(made.core_starts)[1:-1] == 63).all()


def test_a_window_that_owns_nothing_is_left_out():
    """Starts one token apart leave cores of one token, and none for some."""
    made = windows(np.ones(100, int), 10, 1)
    assert (made.core_ends > made.core_starts).all()
    assert made.ends[-1] == 100
