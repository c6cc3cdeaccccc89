"""XLA compiles a step once for each shape of batch: no storms of recompilation."""

import os
import re

import pytest

from tests.support.marks import rarely


@pytest.mark.parametrize(
    "padding", ["pack", *rarely("bucket", "longest", "max_length")]
)
def test_one_compilation_for_each_shape(tiny, tmp_path, script, padding):
    """Counts XLA's own dumps of what it compiles, in a run of many epochs."""
    flags = {"do_train": True, "do_eval": True, "num_train_epochs": 8, "n_gpus": 2}
    flags |= {"xla": "on", "padding": padding, "max_seq_length": 32, "seed": 1}
    xla_flags = [os.environ.get("XLA_FLAGS", ""), f"--xla_dump_to={tmp_path / 'dump'}"]
    env = {"XLA_FLAGS": " ".join([*xla_flags, "--xla_dump_hlo_as_text"])}
    code, _, err = script(tiny.flags(tmp_path / "out", **flags), env=env)
    assert code == 0, err
    reported = len(re.findall(r"compilation included", err.split(" dev  ")[0]))
    compiled = [path.name for path in (tmp_path / "dump").glob("*before_opt*.txt")]
    counts = {
        name: sum(f"_{name}_" in file for file in compiled)
        for name in ("micro_batch_sums", "update_replica", "tower_outputs")
    }
    assert counts["micro_batch_sums"] == reported, compiled
    assert counts["update_replica"] == 1, compiled
    assert 1 <= reported <= {"max_length": 1, "pack": 2}.get(padding, 4)
    shapes = re.findall(r"compilation \((\d+) batch shape", err)
    assert counts["tower_outputs"] == int(shapes[0]) <= 4
    assert "compiling first" not in err  # the training has said so


@pytest.mark.parametrize("xla", ["on", "off"])
def test_an_evaluation_alone_says_that_it_compiles(
    tiny, trained, inside, tmp_path, xla
):
    flags = {"init_checkpoint": trained("own"), "do_eval": True, "xla": xla}
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **flags))
    assert code == 0, err
    assert err.count("compiling first, which takes") == (xla == "on")
