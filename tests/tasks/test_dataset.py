"""The feature cache of a task's files: a set is made anew where anything differs."""

import json

import pytest

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.classification.family import ClassificationFamily
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.text.tokenization import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "a", "b", "c"]
TASK = {"train": "train.tsv", "dev": "train.tsv", "label": 0, "text_a": 1}
ROWS = [("no", "A b c a b", "b"), ("yes", "b a a c c", "c"), ("no", "c c b", "a")]


@pytest.fixture
def dataset(tmp_path):
    """dataset(...) -> a new TaskDataset of files with these rows."""

    def call(rows=ROWS, task=(), tokens=TOKENS, lower=True, family=None, **flags):
        lines = ("\t".join(row) + "\n" for row in rows)
        (tmp_path / "train.tsv").write_text("".join(lines))
        described = {**TASK, "labels": ["no", "yes"], **dict(task)}
        (tmp_path / "task.json").write_text(json.dumps(described))
        (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        words = Tokenizer(tmp_path / "vocab.txt", lower)
        model = Pretrained(
            BertConfig(len(tokens)),
            "c",
            words,
            vocab_file="v",
            do_lower_case=lower,
            labels=None,
        )
        values = {"max_seq_length": 6, "data_dir": str(tmp_path), **flags}
        config = FinetuneConfig(task_name="own", do_train=True, **values)
        files = registry.find_task_files(config)
        family, cache = family or registry.family_of(files, config), tmp_path / "cache"
        return TaskDataset(config, files, family, model=model, cache=cache)

    return call


@pytest.fixture
def read(dataset, tmp_path):
    """read(...) -> the names of the cache's files after a set was read once more."""

    def call(split="train", **changes):
        dataset(**changes).read(split)
        files = (tmp_path / "cache").iterdir()
        return {path.name for path in files if path.suffix != ".lock"}

    return call


@pytest.mark.parametrize("split", ["train", "test"])
def test_texts_are_those_of_the_rows_that_were_read(dataset, tmp_path, split):
    """Else predictions would stand beside the texts of other rows."""
    data = dataset(task={"test": "train.tsv"})
    features, _ = data.read(split)
    assert len(data.examples(split)) == len(features)
    lines = (tmp_path / "train.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(reversed(lines)))
    with pytest.raises(UserError, match="train.tsv: changed while it was read: run"):
        data.examples(split)


def test_a_changed_file_can_be_predicted(dataset, tmp_path):
    data = dataset(task={"test": "test.tsv"})
    (tmp_path / "test.tsv").write_text("no\ta b\n")
    assert len(data.read("test")[0]) == 1
    (tmp_path / "test.tsv").write_text("no\ta b\nyes\tb c\n")
    for _ in range(2):
        assert len(data.read("test")[0]) == len(data.examples("test")) == 2


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_set_is_read_once(dataset, tmp_path, split):
    data = dataset()
    features, _ = data.read(split)
    (tmp_path / "train.tsv").unlink()
    assert data.read(split)[0] is features


def test_rows_that_are_only_predicted_have_a_folder_of_their_own(read, tmp_path):
    """From which a run removes what earlier ones left."""
    assert read(split="test") == {"predicted"}
    (name,) = [path.name for path in (tmp_path / "cache" / "predicted").iterdir()]
    assert name.startswith("own-test-")
    assert len(read(split="dev")) == 2


CHANGES = {
    "a row": {"rows": [*ROWS[:2], ("no", "c c c", "a")]},
    "the column of the text": {"task": {"text_a": 2}},
    "a second text": {"task": {"text_b": 2}},
    "the order of the labels": {"task": {"labels": ["yes", "no"]}},
    "the type": {"task": {"type": "multi"}},
    "the separator": {"task": {"type": "multi", "label_separator": ";"}},
    "the vocabulary": {"tokens": [*TOKENS, "d"]},
    "the casing": {"lower": False},
    "the length": {"max_seq_length": 5},
    "the truncation": {"truncation": "tail"},
    "its head": {"truncation": "head_tail", "head_tokens": 1},
    "a sample": {"max_train_examples": 2},
    "the sample's seed": {"max_train_examples": 2, "seed": 7},
    "its random numbers": {"max_train_examples": 2, "random_numbers": "numpy"},
    "whether labels are read": {"split": "test"},
}


def test_the_same_is_read_from_the_cache(read):
    assert len(read()) == 1
    assert len(read()) == 1


@pytest.mark.parametrize("what", CHANGES)
def test_what_differs_is_made_anew(read, what):
    before = read()
    assert len(before) == 1
    assert len(read(**CHANGES[what])) == 2
    assert len(read()) == 2


def test_another_format_by_the_name_makes_its_rows_anew(dataset, tmp_path):
    """A file that is renamed: a cell with a line's end in CSV is two rows of TSV."""
    sizes = []
    for name in ("new.tsv", "new.csv", "new.tsv"):
        (tmp_path / name).write_text('"a\nb"\n"c"\n')
        made = dataset(task={"test": name, "text_a": 0, "label": 1})
        sizes.append(len(made.read("test")[0]))
    assert sizes == [3, 2, 3]


class WithFlag(ClassificationFamily):
    """Its features depend on a flag that no other family has."""

    def feature_settings(self, config):
        return {"focal_gamma": config.focal_gamma}


def test_a_flag_of_the_family_makes_its_rows_anew(read):
    family = WithFlag()
    assert len(read(family=family, focal_gamma=0.0)) == 1
    assert len(read(family=family, focal_gamma=2.0)) == 2
    assert len(read(family=family, focal_gamma=0.0)) == 2


def test_changes_differ_from_each_other(read):
    for change in CHANGES.values():
        read(**change)
    assert len(read()) == len(CHANGES) + 1
