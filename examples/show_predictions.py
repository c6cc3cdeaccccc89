"""Shows three texts from a file of `make demo`, and what the model predicts for them.

    python examples/show_predictions.py demo/test.tsv demo/output

The file has a label and a text on each line; the folder is the output_dir of a run that
predicted it. The probabilities are from its predictions.jsonl.
"""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap

SHOWN, LONGEST = 3, 76  # texts; characters of one
NEXT = """
What next:
  {out}/report.html   scores, curves, and the worst errors
  source .venv/bin/activate, then
  bert_mgpu serve {out}   the model in a browser (pip install -c
    constraints.txt -e '.[serve]')
  docs/guide.md   the same with your own files, from task.json to a server
"""


def main(path: str, output_dir: str) -> None:
    out = pathlib.Path(output_dir)
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    said = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    count = len(lines)
    print(f"\nThree of the {count} texts of {path}:")
    for part in range(SHOWN):
        number = (2 * part + 1) * count // (2 * SHOWN)  # the middle of each third
        label, _, text = lines[number].partition("\t")
        found = json.loads(said[number])
        share = found["probabilities"][found["label"]]
        end = "" if found["label"] == label else f", but it is {label}"
        shown = textwrap.shorten(text, LONGEST, placeholder=" ...")
        print(f"\n  {shown}\n  {found['label']}, {share:.0%} sure{end}")
    print(NEXT.format(out=out))


if __name__ == "__main__":
    main(*sys.argv[1:])
