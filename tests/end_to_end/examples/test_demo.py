"""What `make demo` ends with."""

import json
import subprocess
import sys

from tests.support.paths import EXAMPLES

TEXT = "a text that is far longer than a terminal is wide " * 4


def test_three_texts_their_labels_and_what_to_do_next(tmp_path):
    """Of 7 rows the middle of each third; no line is wider than a terminal."""
    rows = [(f"label {n}", f"number {n}: {TEXT}") for n in range(7)]
    said = [*("", "label 1", "", "label 3", "", "label 2", "")]
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    made = (
        {"label": label, "probabilities": {label: 0.25 + n / 10}}
        for n, label in enumerate(said)
    )
    (tmp_path / "predictions.jsonl").write_text(
        "".join(f"{json.dumps(one)}\n" for one in made)
    )
    script = EXAMPLES / "show_predictions.py"
    done = subprocess.run(
        [sys.executable, script, "test.tsv", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "Three of the 7 texts of test.tsv:"
    shown = [line.split(":")[0] for line in lines if line.startswith("  number")]
    assert shown == ["  number 1", "  number 3", "  number 5"]
    assert "  label 1, 35% sure" in lines and "  label 3, 55% sure" in lines
    assert "  label 2, 75% sure, but it is label 5" in lines
    assert "  ./report.html   scores, curves, and the worst errors" in lines
    assert max(map(len, lines)) <= 80
