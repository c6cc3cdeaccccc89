"""Rows that run out of memory on purpose."""

from __future__ import annotations

import json
import pathlib
import random
import resource
import sys
import tempfile
from typing import Any

from benchmarks.gpu import absent, shapes
from benchmarks.gpu.process import ROOT, NotRunError, call, is_dry
from benchmarks.gpu.shapes import Shape

_NEEDED = ("safetensors", "tqdm", "google_crc32c", "sklearn")
_GB, _LONGEST = 1 << 30, 1000
_ALLOWED = 8 * _GB  # address space on top of the present one, in a dry run


def _too_large(room: int) -> Shape:
    """A model whose attention scores of one layer take twice the available memory."""
    # In a dry run little but the scores is large, so that it is refused at once. The
    # last layer has scores for only one token.
    shape = Shape(2, 16, 16, 1, 2048) if is_dry() else Shape(2, 768, 12, 1, 512)
    row = 4 * shape.heads * shape.length**2
    return shape._replace(batch=-(-2 * room // row))


def one_card() -> dict[str, Any]:
    """A row: a batch that cannot fit is recognised; a small one then works."""
    from benchmarks.gpu import engine

    room = engine.room() or 16 * _GB
    if is_dry():  # a CPU would take memory that other processes need
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + _ALLOWED
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    shape = _too_large(room)
    lacking, error = None, "no error: it fitted"
    try:
        trainer = engine.Trainer(shape, xla="on")
        trainer.read(trainer.step(trainer.batch()))
    except Exception as raised:
        lacking = engine.lacks_memory(raised)
        error = f"{type(raised).__name__}: {str(raised)[-_LONGEST:]}"
    small = engine.Trainer(shape._replace(batch=2, length=128))
    losses = [small.read(small.step(small.batch()))[0] for _ in range(3)]
    return {
        "told": f"{shape} at {room / 1e9:.0f} GB:"
        f" {lacking[:80] if lacking else f'not recognised: {error[:200]}'}; then 3"
        f" steps of {small.shape}: loss {losses[-1]:.4f}",
        "figures": {"recognised": lacking, "raised": error, "losses": losses},
        "met": bool(lacking) and all(loss == loss for loss in losses),
    }


def _write_task(folder: pathlib.Path, shape: Shape, rows: int) -> list[str]:
    """Writes a task's files with random texts; returns the flags that name them."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"word{number}" for number in range(80)]
    rng = random.Random(1)
    lines = [f"{n % 2}\t{' '.join(rng.choices(words, k=8))}\n" for n in range(rows)]
    config = shape.google_config | {"vocab_size": len(special + words)}
    files = {
        "vocab.txt": "".join(f"{word}\n" for word in special + words),
        "bert_config.json": json.dumps(config),
        "task.json": json.dumps({"train": "train.tsv", "label": 0, "text_a": 1}),
        "train.tsv": "".join(lines),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return [
        "--task_name=drawn",
        f"--data_dir={folder}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'bert_config.json'}",
        f"--output_dir={folder / 'output'}",
    ]


def by_script(cards: int) -> dict[str, Any]:
    """A row: a run whose batch cannot fit finishes, or says which flags to pass."""
    if lacking := absent.missing(_NEEDED):
        raise NotRunError(f"{', '.join(lacking)} not installed")
    # The scores of a layer take 12.6 MB per row: over 100 GB on each card.
    rows = 64 if is_dry() else 8192
    shape = shapes.small(rows, 512)._replace(heads=shapes.base(1, 512).heads)
    shape = shape._replace(hidden=shapes.base(1, 512).hidden, length=512)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags = _write_task(folder, shape, rows * cards * 2)
        settings = {
            "do_train": "true",
            "n_gpus": cards,
            "cpu_devices": cards if is_dry() else 1,
            "train_batch_size": 4 if is_dry() else rows,
            "padding": "longest" if is_dry() else "max_length",
            "max_seq_length": 512,
            "num_train_epochs": 1,
        }
        flags += [f"--{name}={value}" for name, value in settings.items()]
        script = str(ROOT / "run_classifier_mgpu.py")
        ended = call([sys.executable, script, *flags], 540)
    return {
        "told": f"exit code {ended.code}: {ended.log.splitlines()[-1][:200]}",
        "figures": {"code": ended.code, "log": ended.log},
        "met": ended.code in (0, 4),
    }
