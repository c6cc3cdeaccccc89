"""A seed's folder is that of one run at a time."""

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import files
from bert_mgpu.core.errors import Interrupted, UserError
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs import seeds

CONFIG = FinetuneConfig(seeds=2, seed=7)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """work() runs two seeds until one is stopped; work.done: their folders."""

    def finetune(config, folder, topology, towers=None):
        work.done.append(folder.name)
        with (
            pytest.raises(UserError, match="another run"),
            files.locked(folder, "x", "y"),
        ):
            pass
        if config.seed == 8:
            raise Interrupted("by Ctrl-C")

    def work():
        seeds.run(CONFIG, tmp_path, single_process(1, ["CPU:0"]))

    work.done = []
    monkeypatch.setattr(seeds.finetune, "finetune", finetune)
    return work


def test_a_seed_is_locked_while_it_works(work, tmp_path):
    with pytest.raises(Interrupted):
        work()
    assert work.done == ["seed-7", "seed-8"]
    for name in work.done:
        with files.locked(tmp_path / name, "x", "y"):
            pass


def test_a_seed_that_another_run_works_in_is_refused(work, tmp_path):
    with (
        files.locked(tmp_path / "seed-7", "x", "y"),
        pytest.raises(UserError, match=r"seed-7: another run .* another --output_dir"),
    ):
        work()
    assert work.done == []
