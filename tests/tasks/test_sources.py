"""The files of the sets that flags and tasks name."""

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import sources
from bert_mgpu.tasks.files import Columns, TaskFiles

TASK = TaskFiles("mine", (), "t.tsv", dev="d.tsv", test=None, columns=Columns(0))


@pytest.fixture
def source(tmp_path):
    """source(split, ...) -> its file's name, the split of its columns, labelled."""
    for name in ("t.tsv", "d.tsv", "other.tsv"):
        (tmp_path / name).write_text("a\n")

    def find(split, eval_files=None, predict_file=None):
        actual = sources.source(
            TASK,
            split,
            data_dir=tmp_path,
            eval_files=eval_files and f"more={tmp_path / eval_files}",
            predict_file=predict_file and str(tmp_path / predict_file),
        )
        return actual.path.name, actual.split, actual.labelled

    return find


def test_only_rows_to_predict_are_read_without_labels(source):
    assert source("train") == ("t.tsv", "train", True)
    assert source("dev") == ("d.tsv", "dev", True)
    assert source("test") == ("d.tsv", "dev", False)  # for want of a test file
    assert source("test", predict_file="other.tsv") == ("other.tsv", "dev", False)
    assert source("more", eval_files="other.tsv") == ("other.tsv", "dev", True)


def test_several_files_to_predict_are_sets_of_their_names():
    assert sources.predicted(None) == {"test": None}
    assert sources.predicted("a/x.tsv") == {"test": "a/x.tsv"}
    both = sources.predicted("a/x.tsv,b/y.tsv")
    assert both == {"test:x.tsv": "a/x.tsv", "test:y.tsv": "b/y.tsv"}
    with pytest.raises(UserError, match="two files have the same name"):
        sources.predicted("a/x.tsv,b/x.tsv")
    for wrong in ("a/x.tsv,", "a/x.tsv,-"):
        with pytest.raises(UserError, match="pass names alone, or - alone"):
            sources.predicted(wrong)


@pytest.mark.parametrize("flag", ["x", "=x", "a b=x", "dev=x", "a=x,a=y"])
def test_names_of_evaluation_files_are_new_words(flag):
    with pytest.raises(UserError, match="--eval_files"):
        sources.named_files(flag)
