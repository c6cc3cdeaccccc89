"""Messages for users: short, on one line, and the cause that is named."""

import pytest

from bert_mgpu.core import errors
from bert_mgpu.core.errors import UserError


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("failed to allocate memory"),
        ValueError("CUDA out of memory. Tried it"),
    ],
    ids=str,
)
def test_a_lack_of_memory_is_known_by_its_message(error):
    assert errors.out_of_memory(error)


@pytest.mark.parametrize(
    "error", [UserError("out of memory.tsv: no such file"), ValueError("room 101")]
)
def test_other_errors_are_none(error):
    assert errors.out_of_memory(error) is None


def test_names_of_a_message_are_few_short_and_on_one_line():
    names = ["a", "b\nerror: c", "x" * 5000, *map(str, range(9))]
    text = errors.listed(names)
    assert text.startswith("a, 'b\\nerror: c', 'xxx") and text.endswith(" and 2 more")
    assert "\n" not in text and len(text) < 300
    assert errors.listed(["no", "no ", " no"]) == "no, 'no ', ' no'"


def test_a_name_with_a_comma_is_one_name():
    assert errors.listed(["no", "yes, sure"]) == "no, 'yes, sure'"
    assert errors.listed(["no,", "layers 0-2,7"]) == "'no,', layers 0-2,7"
    assert errors.listed(["no", "yes, sure"], quoted=True) == "'no', 'yes, sure'"
