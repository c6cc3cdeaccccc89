"""A small set of pairs, and models trained with it."""

import pytest

from tests.support import rewriting

FLAGS = {"num_train_epochs": 16, "train_batch_size": 8, "learning_rate": 3e-3}
FLAGS |= {"max_seq_length": 24, "max_insert": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewriting") / "data"
    rewriting.write_task(folder)
    return folder


@pytest.fixture
def flags(tiny, data):
    def make(out, **changed):
        return tiny.flags(out, "mine", **{"data_dir": data, **FLAGS, **changed})

    return make


@pytest.fixture
def rewriter(flags, inside, tmp_path_factory):
    """rewriter(**flags) -> the output_dir of a training; made once."""

    def make(**changed):
        name = "-".join(["rewriter", *(f"{key}={v}" for key, v in changed.items())])
        folder = tmp_path_factory.getbasetemp() / name
        if not folder.exists():
            changed = {"do_train": True, "do_eval": True, "do_predict": True, **changed}
            code, _, err = inside(flags(folder, **changed))
            assert code == 0, err
        return folder

    return make
