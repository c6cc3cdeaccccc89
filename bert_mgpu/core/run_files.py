"""The names of a run's files and folders in its output_dir."""

from __future__ import annotations

import os
import pathlib
import re

from bert_mgpu.core.errors import UserError

RUN, CONFIG = "run.json", "bert_config.json"
LABELS, VOCAB = "label_list.txt", "vocab.txt"
MODEL = (RUN, CONFIG, LABELS, VOCAB)  # the files beside the weights of a model
CACHE, BEST, REPORT, PREDICTED = "cache", "best", "report", "predicted"
SAVING = ".saving"  # a checkpoint that is being written
SEED = "seed-{}"
# Into these a run writes.
_FOLDERS = re.compile(
    "|".join(map(re.escape, (CACHE, BEST, REPORT, PREDICTED, SAVING)))
    + f"|{SEED.format('[0-9]+')}"
)


def check_folders(output_dir: pathlib.Path, unused: str | None = None) -> None:
    """Raises UserError where a run would write outside of its output_dir.

    Files replace links; but through a folder that is a link they would go elsewhere.
    unused: the name of a folder to which this run does not write.
    """
    for path in sorted(output_dir.iterdir()) if output_dir.is_dir() else ():
        if not _FOLDERS.fullmatch(path.name) or path.name == unused:
            continue
        if not path.is_dir() and not path.is_symlink():
            raise UserError(f"{path}: not a folder: remove it")
        links = [path] if path.is_symlink() else []
        for folder, names, _ in os.walk(path) if not links else ():
            links += [p for n in names if (p := pathlib.Path(folder, n)).is_symlink()]
        if links:
            raise UserError(
                f"{links[0]}: a link, and a run does not write through it: remove it,"
                " or pass another --output_dir (or --cache_dir, for the cache)"
            )
