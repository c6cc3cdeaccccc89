"""The makers of the golden files still make them."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.support.paths import GOLDEN, ROOT

MAKERS = {
    "make_golden": ("encoder.npz", "minilm.npz", "names.json"),
    "pretraining_heads": ("pretraining_heads.json",),
    "google_instances": ("instances.json",),
    "google_masks": ("masks.json",),
}
VERSIONS = ("versions", "bert-tensorflow")
# By the format of a file. Hidden states, which .npz files hold, differed by 1.9e-6
# between two processors.
LIMITS = {".npz": 4e-6, ".json": 1e-6}


def content(path):
    """Values by their names; versions of packages may be newer ones."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
    else:
        values = json.loads(path.read_text())
    return {name: value for name, value in values.items() if name not in VERSIONS}


def assert_near(actual, wanted, where, *, limit):
    """Sums of floats may differ in their last bits from one processor to another."""
    if isinstance(wanted, dict):
        assert actual.keys() == wanted.keys(), where
        for name, value in wanted.items():
            assert_near(actual[name], value, f"{where}: {name}", limit=limit)
    elif isinstance(wanted, list):
        assert len(actual) == len(wanted), where
        for number, (one, other) in enumerate(zip(actual, wanted, strict=True)):
            assert_near(one, other, f"{where}[{number}]", limit=limit)
    elif isinstance(wanted, (float, np.ndarray)):
        np.testing.assert_allclose(actual, wanted, limit, limit, err_msg=where)
    else:
        assert actual == wanted, where


@pytest.mark.nightly
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("bert", "torch")),
    reason="torch is not here: make parity installs it",
)
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_maker_gives_its_files(tmp_path, maker):
    subprocess.run(
        [sys.executable, "-m", f"tests.reference.{maker}"],
        cwd=ROOT,
        env={**os.environ, "TEST_GOLDEN": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        check=True,
    )
    assert {path.name for path in tmp_path.iterdir()} == {*MAKERS[maker]}
    for name in MAKERS[maker]:
        made, kept = content(tmp_path / name), content(GOLDEN / name)
        assert_near(made, kept, name, limit=LIMITS[pathlib.Path(name).suffix])
