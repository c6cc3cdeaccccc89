import pytest

from bert_mgpu.core import units


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 kB"),
        (42_400, "42 kB"),
        (300_000, "0.3 MB"),
        (1_460_000, "1.5 MB"),
        (1e7, "10 MB"),
        (999_400_000, "999 MB"),
        (1e9, "1.0 GB"),
        (16.44e9, "16.4 GB"),
    ],
)
def test_sizes_are_powers_of_ten(count, text):
    assert units.size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.6, "1 second"),
        (119, "119 seconds"),
        (120, "2.0 minutes"),
        (7200, "2.0 hours"),
        (5 * 86400, "5.0 days"),
    ],
)
def test_durations_have_one_unit(seconds, text):
    assert units.duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (62.6, "1:03"), (3600, "1:00:00")]
)
def test_clock(seconds, text):
    assert units.clock_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows"), (1, "1 row"), (20, "20 rows")]
)
def test_counts_of_things(count, text):
    assert units.counted(count, "row") == text
