"""Faults of what `bert_mgpu doctor data` finds in rows that can be read."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_NEAR, _NEAR_TEST = "text/near_duplicates.py", "text/test_near_duplicates.py"
_ROWS, _DOCTOR_TEST = "cli/doctor/near_rows.py", "cli/test_doctor_data.py"
_WRONG = "tasks/classification/wrong_labels.py"
_WRONG_TEST = "tasks/classification/test_wrong_labels.py"
_COPIES, _SIGNS = "cli/doctor/repaired_files.py", "cli/doctor/plain_signs.py"

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
    Mutant("a model has seen the row that it doubts", _WRONG,
           "model.fit(matrix[~held], truth[~held])", "model.fit(matrix, truth)", _WRONG_TEST),
    Mutant("copies of a text are in several folds", _WRONG,
           "held = fold[text] == number", "held = np.arange(len(truth)) % FOLDS == number",
           _WRONG_TEST + " witness"),
    Mutant("a label is doubted below the other's threshold", _WRONG,
           "np.where(probabilities >= thresholds, probabilities, -1.0)", "probabilities",
           _WRONG_TEST),
    Mutant("rare labels are doubted", _WRONG, "counts[truth] >= _FEW", "counts[truth] > 0",
           _WRONG_TEST),
    Mutant("a pair is read as two texts", _WRONG,
           "[first.multiply(second), apart, first, second]", "[first, second]", _WRONG_TEST),
    Mutant("a model that learns nothing doubts labels", "cli/doctor/doubted_labels.py",
           "self._all.right > self._all.most_common", "True", _DOCTOR_TEST),
    Mutant("a row of two labels is a repeated one", _COPIES,
           "elif (key, repr(example.label)) in labels:", "elif key in {k for k, _ in labels}:",
           _DOCTOR_TEST + " of_two_labels"),
    Mutant("near rows of dev stay in train", _COPIES,
           "if key in seen or 0 <= first < len(others):", "if key in seen:",
           _DOCTOR_TEST + " mended"),
    Mutant("labels are written plainly", _SIGNS,
           "columns.label if with_label else None", "columns.label",
           _DOCTOR_TEST + " labels_and_headers"),
    Mutant("names of columns are not looked up", _SIGNS,
           "if number == 0 and self._has_header", "if number < 0 and self._has_header",
           _DOCTOR_TEST + " labels_and_headers"),
    Mutant("packed files are not packed", _COPIES,
           "pack = _PACK.get(copy.suffix, bytes)", "pack = bytes",
           _DOCTOR_TEST + " task_json"),
    Mutant("rows are texts to learn from", _WRONG,
           "np.bincount(truth[first], ", "np.bincount(truth, ",
           _DOCTOR_TEST + " again_and_again"),
    Mutant("only the first line of a row is left out", _COPIES,
           "own = bisect.bisect_right(starts, number)",
           "own = bisect.bisect_right(starts, number) * (number in starts)",
           "tasks/tagging/test_repair.py repeated"),
    Mutant("signs that the vocabulary has are unknown", "text/vocab_coverage.py",
           "for sign in unknown\n", "for sign in _PLAIN\n",
           "text/test_vocab_coverage.py signs"),
    Mutant("the doctor's page has no problems", "cli/doctor/findings.py",
           "self._problems = [*lines]", "pass", f"{_DOCTOR_TEST} page"),
    Mutant("the doctor's page lacks the last table", "cli/doctor/findings.py",
           "sections=self._sections)", "sections=self._sections[:-1])",
           f"{_DOCTOR_TEST} page"),
]
# fmt: on
