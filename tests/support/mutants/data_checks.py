"""Faults of what `bert_mgpu doctor data` finds in rows that can be read."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_NEAR, _NEAR_TEST = "text/near_duplicates.py", "text/test_near_duplicates.py"
_ROWS, _DOCTOR_TEST = "cli/doctor/near_rows.py", "cli/test_doctor_data.py"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("texts of other numbers are near", _NEAR,
           "keys = [(*map(bare, texts), *_numbers(texts)) for texts in rows]",
           "keys = [(*map(bare, texts),) for texts in rows]", _NEAR_TEST),
    Mutant("emojis are punctuation", _NEAR, 'if kind in "PZC"', 'if kind in "PZCS"',
           _NEAR_TEST),
    Mutant("one piece is enough for any number of edits", _NEAR,
           "order[rank <= rows.edits[row]]", "order[rank < 1]", _NEAR_TEST),
    Mutant("pieces stand at the same place", _NEAR,
           "& (np.abs(one.place - other.place) <= edits)",
           "& (one.place == other.place)", _NEAR_TEST),
    Mutant("what shares a piece is near", _NEAR,
           "if one not in near and all(map(differ_little, parts[one], parts[other])):",
           "if one not in near:", _NEAR_TEST),
    Mutant("one near text of a pair is enough", _NEAR,
           "all(map(differ_little, parts", "any(map(differ_little, parts", _NEAR_TEST),
    Mutant("a missing character is no edit", _NEAR,
           "reach.get(diagonal + 1, -2) + 1,", "reach.get(diagonal, -2) + 1,", _NEAR_TEST),
    Mutant("a copy of a near row is near to that one alone", _NEAR,
           "np.where(near < 0, near, earliest[near])", "np.where(near < 0, earliest, near)",
           _NEAR_TEST),
    Mutant("the same text is told of twice", _ROWS, "if not same and (", "if (",
           _DOCTOR_TEST),
    Mutant("near rows of two labels are told as those of one", _ROWS,
           "return bool(labels[0] == labels[1])", "return True", _DOCTOR_TEST),
]
# fmt: on
