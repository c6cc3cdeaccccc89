"""The settings of a run whose batches are cut into parts; the lock of its folder."""

import pytest

from bert_mgpu.cli import session
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed.launcher import ProcessRank


def test_a_batch_in_parts_stays_the_same_batch():
    config = FinetuneConfig(train_batch_size=12, gradient_accumulation_steps=2)
    parts = session.in_parts(config, 3)
    assert parts.train_batch_size == 4 and parts.gradient_accumulation_steps == 6


def test_parts_have_to_divide_the_batch():
    with pytest.raises(UserError, match="=5 does not divide --train_batch_size=12"):
        session.in_parts(FinetuneConfig(train_batch_size=12), 5)


@pytest.mark.parametrize(
    ("rank", "unused", "kept"), [(0, None, 8), (0, run_files.CACHE, 12), (1, None, 12)]
)
def test_a_run_that_has_locked_its_folder_sweeps_it(tmp_path, rank, unused, kept):
    """The first process does, and leaves a folder of the user as it is."""
    folder = tmp_path / "cache" / "predicted"
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.safetensors").touch()
    with session._locked(tmp_path, ProcessRank(rank, 2), unused, reads=False):
        assert len([*folder.iterdir()]) == kept
