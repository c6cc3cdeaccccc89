"""A run that is looked at on its way."""

import pytest

from tests.support.evaluations import LOOKS, TRAINED
from tests.support.tiny import rows


@pytest.fixture(scope="session")
def later(tmp_path_factory):
    """A second set to evaluate, of task own."""
    path = tmp_path_factory.mktemp("sets") / "later.tsv"
    lines = (f"{('no', 'yes')[label]}\t{a}\n" for label, a, _ in rows(17, 7))
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def looked(trained, later):
    """The output_dir of a run that was evaluated every 4 steps."""
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}", "do_eval": True}
    flags |= {"keep_checkpoint_max": 0, "save_checkpoints_steps": 2}
    return trained("own", **flags, n_gpus=1, report=True)
