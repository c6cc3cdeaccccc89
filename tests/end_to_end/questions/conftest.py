"""Small files of questions, and models trained with them."""

import pytest

from tests.support import questions

FLAGS = {"num_train_epochs": 8, "train_batch_size": 8, "learning_rate": 5e-3}
FLAGS |= {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folders of squad and squad2; some contexts have several windows."""
    root = tmp_path_factory.mktemp("qa")
    for task, negative in (("squad", 0.0), ("squad2", 0.4)):
        parts = {
            "train": questions.small(64, 1, negative),
            "dev": questions.small(21, 2, negative),
        }
        questions.write(root / task, task, parts)
    return root


@pytest.fixture
def flags(tiny, data):
    def make(out, task="squad", **changed):
        return tiny.flags(out, task, **{"data_dir": data / task, **FLAGS, **changed})

    return make


@pytest.fixture
def answerer(flags, inside, tmp_path_factory):
    """answerer(task, **flags) -> the output_dir of a training; made once."""

    def make(task="squad", **changed):
        name = "-".join([task, *(f"{key}={value}" for key, value in changed.items())])
        folder = tmp_path_factory.getbasetemp() / f"qa-{name}"
        if not folder.exists():
            changed = {"do_train": True, "do_eval": True, "do_predict": True, **changed}
            code, _, err = inside(flags(folder, task, **changed))
            assert code == 0, err
        return folder

    return make
