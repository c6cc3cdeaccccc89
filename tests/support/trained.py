"""Trainings of the tiny model that several tests look at."""

import os

from bert_mgpu.distributed import launcher


def _files(folder):
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


class Trained:
    """trained(task, **flags) -> the output_dir, the same again for the same flags.

    Nobody writes into one of them: a test that has to takes a copy.
    """

    def __init__(self, tiny, root):
        self._tiny, self._root = tiny, root
        self._made = {}

    def __call__(self, task="mrpc", **flags):
        from bert_mgpu.cli import run_classifier

        key = task, *sorted((name, str(value)) for name, value in flags.items())
        if key not in self._made:
            out = self._root / f"{len(self._made)}-{task}"
            os.environ.pop(launcher.PARTS, None)
            args = self._tiny.flags(out, task, **{"do_train": True, **flags})
            assert run_classifier.main(["", *args]) == 0, flags
            self._made[key] = out, _files(out)
        out, files = self._made[key]
        assert _files(out) == files, f"a test has written into {key}"
        return out
