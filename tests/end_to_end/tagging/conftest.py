"""Small data sets of entities, and models trained with them."""

import pytest

from tests.support import entities

FLAGS = {"num_train_epochs": 8, "train_batch_size": 8, "learning_rate": 5e-3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folders with the files of both forms; some sentences have several windows."""
    root = tmp_path_factory.mktemp("tags")
    for task in entities.FORMS:
        entities.write_task(root / task, task)
    return root


@pytest.fixture
def flags(tiny, data):
    def make(out, task="ner", **changed):
        return tiny.flags(out, task, **{"data_dir": data / task, **FLAGS, **changed})

    return make


@pytest.fixture
def tagger(flags, inside, tmp_path_factory):
    """tagger(task, **flags) -> the output_dir of a training; made once."""

    def make(task="ner", **changed):
        name = "-".join([task, *(f"{key}={value}" for key, value in changed.items())])
        folder = tmp_path_factory.getbasetemp() / name
        if not folder.exists():
            changed = {"do_train": True, "do_eval": True, "do_predict": True, **changed}
            code, _, err = inside(flags(folder, task, **changed))
            assert code == 0, err
            assert "48 examples (58 rows)" in err and "cut into windows of 16" in err
        return folder

    return make
