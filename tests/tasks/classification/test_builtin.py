"""The built-in tasks: names, files, labels, samples, and faults in the data."""

import dataclasses
import json

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import registry, task_json
from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.classification.reader import read_label
from bert_mgpu.tasks.reader import read_examples
from bert_mgpu.tasks.row_groups import sample
from bert_mgpu.tasks.sources import predict_file_split, split_path
from tests.support.builtin_files import ID8, write_file

SPLITS = ("train", "dev", "test")

# Train, dev and test file, and the labels as bert-ad spells them.
# fmt: off
FILES = {
    "cola": ("train.tsv", "dev.tsv", "test.tsv", "0,1"),
    "mnli": ("train.tsv", "dev_matched.tsv", "test_matched.tsv",
             "contradiction,entailment,neutral"),
    "mrpc": ("train.tsv", "dev.tsv", "test.tsv", "0,1"),
    "xnli": ("multinli/multinli.train.zh.tsv", "xnli.dev.tsv", None,
             "contradiction,entailment,neutral"),
    "sentiment": ("train.txt", "test.txt", None, "0,1"),
    "wos5736": ("train.txt", "test.txt", None, "0,1,2,3,4,5,6,7,8,9,10"),
    "wos46985": ("train.txt", "test.txt", None,
                 ",".join(str(number) for number in range(134))),
    "toutiao": ("train_0705.tsv", "test_0705.tsv", None,
                "news_story,stock,news_house,news_finance,news_edu,news_car,"
                "news_travel,news_world,news_game,news_agriculture,"
                "news_sports,news_tech,news_military,news_entertainment,"
                "news_culture"),
    "title_audit": ("train_all_0531.txt", "test_all_0531.txt", None, "0,1"),
    "abuse": ("train_abuse_0531.txt", "eval_data_revise.txt", None, "0,1"),
    "ad": ("train_0620.txt", "eval_0620.txt", None, "0,1"),
    "high_level": ("train_without_content_0515.txt",
                   "test_without_content_0515.txt", None, "0,1"),
    "doc_lv1": ("train.tsv", "test.tsv", None,
                "beauty,astro,history,food,digital,game,science,health,baby,"
                "houseliving,ent,edu,pet,tech,finance,mil,agriculture,sports,"
                "travel,house"),
}
# fmt: on


@pytest.mark.parametrize("name", FILES)
def test_files_and_labels_are_those_of_old_data_folders(tmp_path, name):
    *files, labels = FILES[name]
    assert ",".join(BUILTIN[name].labels) == labels
    for file in filter(None, files):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    actual = [split_path(BUILTIN[name], tmp_path, s) for s in SPLITS]
    test = (files[2], "test") if files[2] else (files[1], "dev")
    expected = [(files[0], "train"), (files[1], "dev"), test]
    assert [(source.path, source.split) for source in actual] == [
        (tmp_path / file, split) for file, split in expected
    ]
    for source in actual:
        assert source.columns == BUILTIN[name].columns_of(source.split)
        assert (source.note, source.labelled, source.share) == (None, True, None)


def test_an_absent_test_file_is_dev_with_a_note(tmp_path):
    (tmp_path / "dev.tsv").touch()
    source = split_path(BUILTIN["cola"], tmp_path, "test")
    assert source[:2] == (tmp_path / "dev.tsv", "dev")
    assert source.note is not None
    assert "test.tsv" in source.note and "dev.tsv" in source.note


def test_an_absent_file_names_the_nearest(tmp_path):
    (tmp_path / "dev_mismatched.tsv").touch()
    with pytest.raises(UserError, match="no such file.*dev_mismatched.tsv"):
        split_path(BUILTIN["mnli"], tmp_path, "dev")
    with pytest.raises(UserError, match="no directory"):
        split_path(BUILTIN["xnli"], tmp_path, "train")


def test_a_predict_file_of_cola_may_look_like_test_or_dev(tmp_path):
    task = BUILTIN["cola"]
    test = write_file(tmp_path / "a", "id\tsentence\n0\tA\n")
    dev = write_file(tmp_path / "b", "gj04\t1\t\tA\n")
    assert predict_file_split(task, test) == "test"
    assert predict_file_split(task, dev) == "dev"
    assert predict_file_split(BUILTIN["mnli"], test) == "test"
    assert predict_file_split(BUILTIN["abuse"], test) == "dev"


def test_task_names_have_no_case_and_typos_get_a_hint(tmp_path):
    def find(name):
        config = FinetuneConfig(task_name=name, data_dir=str(tmp_path))
        return registry.find_task_files(config)

    assert find("High_Level") is BUILTIN["high_level"]
    with pytest.raises(UserError, match="did you mean cola.*doc_lv1") as error:
        find("Colla")
    assert "--task_name=Colla" in str(error.value)
    with pytest.raises(UserError, match="[bB]uilt in are cola, mnli"):
        find("完全不同")


@pytest.mark.parametrize(
    ("name", "split", "text", "with_label", "message"),
    [
        ("cola", "dev", "a\t1\t\tx\na\t2\t\tx\n", True, ":2: label '2' is not"
         " one of 0, 1"),
        ("cola", "dev", "a\t1 \t\tx\n", True, ":1: label '1 '"),
        ("cola", "dev", "a\t1\n", True, ":1: 2 columns, but the task cola needs"
         " column 3"),
        ("cola", "dev", "one\n", False, ":1: 1 column, but the task cola"),
        ("cola", "dev", "a\t1\t\tx\n\n", True, ":2: blank line"),
        ("cola", "test", "id\ttext\n0\tx\n", True, "have no labels"),
        ("cola", "test", "id\ttext\n", False, ": no rows for the task cola"),
        ("abuse", "dev", "", True, ": no rows"),
        ("xnli", "dev", "h\nen\tx\n", False, ": no rows"),
        ("mnli", "dev", f"h\n{ID8}\ta\tneutral\n", True, "needs column 10"),
        ("mnli", "dev", f"h\n{ID8}\ta\n", False, "needs column 9"),
        ("title_audit", "dev", "1\tc\t1\n", True, "needs column 3"),
        ("wos46985", "dev", "134\ta\n", True, "of 0, 1, 2, ..., 133"),
        ("toutiao", "dev", "stock 标题\n", True, ":1: 1 column"),
        ("xnli", "train", "h\na\tb\tc\n", True, "contradictory, contradiction"),
        ("sentiment", "dev", '{"comment": "a"\n', False, ":1: not a JSON"),
        ("sentiment", "dev", '{"comment": 3}\n', False, 'no string "comment"'),
        ("sentiment", "dev", '{"comment": "\\ud83d\\ude00"}\n{"comment": "a\\ud83d"}\n',
         False, ':2: "comment" contains an unpaired surrogate'),
        ("sentiment", "dev", '["a"]\n', False, 'no string "comment"'),
        ("sentiment", "dev", "[" * 99999 + "\n", False, ":1: not a JSON"),
        ("sentiment", "dev", '{"comment": "a"}\n', True, "label '' is not one"),
        ("sentiment", "dev", '{"comment": "a", "items": [{"sentiment": 3}]}\n',
         True, "label '3' is not one of 0, 1, 2"),
    ],
)  # fmt: skip
def test_a_fault_in_the_data_is_one_line_with_its_place(
    tmp_path, name, split, text, with_label, message
):
    path = write_file(tmp_path / "file", text)
    with pytest.raises(UserError) as error:
        read_examples(
            BUILTIN[name], path, split, label=read_label, with_label=with_label
        )
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_task_without_a_label_list_takes_every_label(tmp_path):
    task = dataclasses.replace(BUILTIN["doc_lv1"], labels=())
    path = write_file(tmp_path / "file", "new\ta\n\tb\n")
    rows = read_examples(task, path, "train", label=read_label, with_label=True)
    assert [row.label for row in rows] == ["new", ""]


def test_a_subset_is_a_sample_in_file_order_of_the_rows_that_count(tmp_path):
    lines = [
        json.dumps({"comment": str(i), "items": [{"sentiment": i % 3}]})
        for i in range(900)
    ]
    path = write_file(tmp_path / "file", "\n".join(lines))

    def read(keep=None, seed=0):
        examples = read_examples(
            BUILTIN["sentiment"], path, "train", label=read_label, with_label=True
        )
        return sample(examples, keep, seed)

    everything, some = read(), read(keep=100, seed=1)
    assert len(everything) == 600 and len(some) == 100
    assert set(some) <= set(everything)
    assert [row.line for row in some] == sorted({row.line for row in some})
    assert some == read(keep=100, seed=1) != read(keep=100, seed=2)
    assert some[-1].line > 600  # not the file's head
    assert read(keep=1000) == everything


def test_task_json_beside_a_builtin_task_is_said_not_read(tmp_path):
    run = FinetuneConfig(task_name="MRPC", data_dir=str(tmp_path))
    assert task_json.overlooked("MRPC", tmp_path, BUILTIN) is None
    (tmp_path / "task.json").write_text('{"no": "task"}')
    assert registry.find_task_files(run) is BUILTIN["mrpc"]
    remark = task_json.overlooked("MRPC", tmp_path, BUILTIN)
    assert remark.startswith(f"{tmp_path}/task.json is not read: MRPC is a built-in")
    assert task_json.overlooked("mine", tmp_path, BUILTIN) is None
