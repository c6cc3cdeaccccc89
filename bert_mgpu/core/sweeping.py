"""What earlier runs left in an output_dir, removed by a run that has locked it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time

from bert_mgpu.core import run_files

_TEMPORARY = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp", re.DOTALL)  # see files.replacing
_ABANDONED = 3600  # seconds since anything was written
_MOST_PREDICTED = 8  # cache files of sets that are only predicted


def sweep(output_dir: pathlib.Path, *, own_cache: bool) -> None:
    """Removes abandoned temporary files and the cache files of older predictions.

    own_cache: whether the run uses the cache in its output_dir; any other folder is the
    user's own. Another run may nevertheless have been given this one as --cache_dir: a
    cache file that is gone is made again, and only what nothing has written to for an
    hour counts as abandoned.
    """
    cache = output_dir / run_files.CACHE
    folders = [cache, cache / run_files.PREDICTED] if own_cache else []
    for folder in (output_dir, *folders):
        for written, path in _newest_first(folder):
            is_old = written < time.time() - _ABANDONED
            if is_old and _TEMPORARY.fullmatch(path.name):
                _unlink(path)
    for folder in folders[1:]:
        kept = [path for _, path in _newest_first(folder) if path.name[0] != "."]
        for path in kept[_MOST_PREDICTED:]:
            _unlink(path)


def _newest_first(folder: pathlib.Path) -> list[tuple[float, pathlib.Path]]:
    """(time of the last change, path) of the files in a folder; no links."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                written = entry.stat(follow_symlinks=False).st_mtime
                found.append((written, pathlib.Path(entry.path)))
    return sorted(found, reverse=True)


def _unlink(path: pathlib.Path) -> None:
    with contextlib.suppress(OSError):  # a disk that cannot be written to, for one
        path.unlink()
