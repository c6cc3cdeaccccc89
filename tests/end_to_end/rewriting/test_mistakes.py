"""Mistaken files, flags and models: one line says what to do; nothing is trained."""

import gzip
import json
import shutil

import pytest

from bert_mgpu.core import text_files
from tests.support import rewriting
from tests.support.hostile_rows import bomb, run_refused
from tests.support.runs import assert_refused
from tests.support.tiny import VOCAB, edit_config, write_vocab

ROWS = [*rewriting.pairs(20, 7)]
GOOD = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
DEEP = b"[" * 1000 + b"]" * 1000
LONG = text_files.LONGEST_LINE + 1
MARKED = {"target": "sun [SLOT]"}


def row(**changed):
    """A line behind those that are as they should be: the 21st."""
    values = {**ROWS[0], **changed}
    return GOOD + json.dumps(values).encode() + b"\n"


def pairs(count, source, target):
    """So many equal rows, and 20 - count good ones."""
    own = {"source": source, "context": "joy", "target": target}
    rows = [own] * count + ROWS[count:]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def refused(tmp_path, tiny, inside):
    """refused(content, *fragments, name=..., task=..., **flags)"""

    def check(content, *fragments, name="train.jsonl", task=None, **flags):
        folder = tmp_path / "data"
        folder.mkdir()
        (folder / name).write_bytes(content)
        values = {**rewriting.TASK, "train": name, **(task or {})}
        for split in ("dev", "test"):
            (folder / f"{split}.jsonl").write_bytes(GOOD)
        values = {key: value for key, value in values.items() if value is not None}
        (folder / "task.json").write_text(json.dumps(values))
        given = {"data_dir": folder, "do_train": True, "max_insert": 3, **flags}
        out = tmp_path / "out"
        args = tiny.flags(out, "mine", **given)
        run_refused(lambda: inside(args), out, tmp_path, *fragments)

    return check


FILES = {
    "a slot in a target": (row(**MARKED), "21: the target has [SLOT]: put the text",
                           "pass another --slot_marker"),
    "an empty target": (row(target=""), "21: the target is empty: delete the line"),
    "a blank target": (row(target=" \u3000 "), "21: the target is empty"),
    "null": (row(target=None), "21: column 'target' is null: pass a string"),
    "a list": (row(target=["sun", "joy"]), "21: column 'target' is a list, ['sun',",
               "pass one text"),
    "an object": (row(target={"text": "sun"}), "21: column 'target' is ", "pass a"),
    "a list of texts": (row(source=["sun"]), "21: column 'source' is a list"),
    "a list as context": (row(context=[["sun"]]), "21: column 'context' is a list of"),
    "a number that is none": (row(source=float("nan")), "21: column 'source' is 'nan'"),
    "no target in a row": (GOOD + b'{"source": "sun", "context": ""}\n',
                           "21: no column 'target'"),
    "a target twice": (GOOD + b'{"target": "sun", "target": "joy"}', "21: ", "2 t"),
    "half a character": (GOOD + b'{"source": "a", "context": "", "target": "\\ud83d"}',
                         "21: column 'target' contains an unpaired surrogate"),
    "a blank line": (GOOD + b"\n" + GOOD, "21: blank line: delete it"),
    "NUL": (GOOD + b'{"source": "s\0n"}\n', "21: NUL byte at column 14"),
    "bytes of GB18030": (GOOD + "新闻".encode("gbk"), "21: not UTF-8", "iconv"),
    "bytes of UTF-16": (GOOD.decode().encode("utf-16"), "1: not UTF-8 but UTF-16"),
    "cut off": (GOOD[:-9], "20: not a JSON object: Unterminated string"),
    "no object": (GOOD + b'"sun"\n', "21: not a JSON object"),
    "deep": (GOOD + b'{"source": ' + DEEP + b"}", "21: "),
    "deep alone": (GOOD + DEEP * 99, "21: not a JSON object"),
    "a long line": (GOOD + b"s" * LONG, "21: more than 16777216 bytes"),
    "CR alone": (GOOD.replace(b"\n", b"\r"), "1: its lines end in CR alone"),
    "nothing": (b"", " no rows for the task mine"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files(refused, name):
    content, *fragments = FILES[name]
    refused(content, "train.jsonl:", *fragments)


def test_packed_files(refused):
    refused(bomb(), "train.jsonl.gz:1: more than 16777216", name="train.jsonl.gz")


def test_packed_files_that_are_cut(refused):
    content = gzip.compress(GOOD)[:-9]
    refused(content, "train.jsonl.gz: damaged or cut", name="train.jsonl.gz")


# The fragments follow the name of the file.
UNFIT = {
    "nothing changes": (pairs(20, "sun joy", "sun joy"), "20 of 20 targets are equal",
                        "nothing to learn: pass the column", "--target_column"),
    "nothing is common": (pairs(20, "sun joy rain", "win fear"),
                          "20 of 20 targets have less than 10% of their tokens in",
                          "these are not edits: pass the column", "--target_column"),
    "nothing is common, at length": (
        pairs(20, "sun joy rain " * 6, "win fear " * 9), "these are not edits"),
    "too much at one place": (
        pairs(5, "sun joy", "sun win win win win win joy"),
        "of 20 pairs 5 have more tokens at one place than --max_insert (lines 1, 2, 3",
        "and 2 more): raise --max_insert to 5, or pass other pairs"),
    "far too much": (pairs(5, "sun", f"sun {'win ' * 150}"), "_insert to 100, or pass"),
    "outside of slots": (
        pairs(5, "sun [SLOT] joy", "rain win joy"),
        "of 20 pairs 5 differ from their target outside of the slots (lines 1,",
        "write the same text in both, except in the slots"),
    "empty slots": (pairs(5, "sun [SLOT]", "sun"), "outside of the slots"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_pairs_that_teach_no_rewriting(refused, name):
    content, *fragments = UNFIT[name]
    refused(content, "train.jsonl: ", *fragments)


def test_shares_are_those_of_all_pairs(refused):
    """One of five is not more than 20 %: the next mistake is found."""
    content = pairs(4, "sun joy", "sun win win win win win joy")
    refused(content, "--best_metric=f2: ", best_metric="f2", eval_steps=1)


TASKS = {
    "no target": ({"target": None}, "task.json: 'target' is missing: give the column",
                  "or --target_column"),
    "a text as target": ({"target": "source"}, "task.json: 'target' is the column",
                         "'source'", "pass the column of the rewritten text"),
    "a context as target": ({"target": "context"}, "'target' is the column 'context'"),
    "two targets": ({"label": "source"}, "'target' is 'target', but 'label' is ",
                    "'source'", "leave 'label' out"),
    "a list of targets": ({"target": ["a"]}, "'target' is ['a'], but must be of type"),
    "a number as a text": ({"target": "2"}, "train.jsonl:1: no column '2'"),
    "a number": ({"target": 2}, "train.jsonl: ", "2"),
    "no such column": ({"target": "tgt"}, "train.jsonl:1: no column 'tgt'"),
    "targets": ({"targets": "x"}, "unknown key 'targets': did you mean 'target'?"),
    "an empty marker": ({"slot_marker": ""}, "task.json: 'slot_marker' is empty"),
    "a blank marker": ({"slot_marker": " \t"}, "task.json: 'slot_marker' is blank"),
    "no marker": ({"slot_marker": 5}, "'slot_marker' is 5, but must be of type str"),
    "labels": ({"labels": ["a", "b"]}, "'labels': the type 'rewrite' has no names of"),
    "a type": ({"type": "rewriting"}, "'type' is 'rewriting': pass one of", "rewrite"),
    "target of a class": ({"type": "single", "label": "target"},
                          "'target' is only for the type 'rewrite'"),
    "marker of tags": ({"type": "tags", "target": None, "slot_marker": "_"},
                       "'slot_marker' is only for the type 'rewrite'"),
    "scheme of tags": ({"scheme": "bio"}, "'scheme' is only for the type 'tags'"),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_task_files(refused, name):
    changed, *fragments = TASKS[name]
    refused(GOOD, *fragments, task=changed)


DOES_NOTHING = "the type 'rewrite' ", "leave the flag out"
OTHERS = "only for the type ", "not 'rewrite': leave the flag out"
FLAGS = [
    ({"max_insert": 0}, "--max_insert=0: pass at least 1"),
    ({"max_insert": 1000}, "--max_insert=1000: pass at most 100"),
    ({"max_insert": "many"}, "--max_insert=many: pass a whole number"),
    ({"fill_rounds": 0}, "--fill_rounds=0: pass at least 1"),
    ({"num_candidates": 101}, "--num_candidates=101: pass at most 100"),
    ({"insert_from": "row"}, "--insert_from=row: pass one of vocabulary, input"),
    ({"keep_bias": "nan"}, "--keep_bias=nan: pass a finite number"),
    ({"slot_marker": " "}, "--slot_marker is blank"),
    ({"target_column": "source"}, "'target' is the column 'source'"),
    ({"target_column": "tgt"}, "train.jsonl:1: no column 'tgt'"),
    ({"best_metric": "eval_accuracy", "eval_steps": 1}, "--best_metric=eval_accuracy",
     "exact_match"),
    ({"label_separator": ";"}, "--label_separator is only for the type 'multi'"),
    ({"tag_units": "words"}, "--tag_units is only for the type 'tags'"),
    ({"class_weights": "balanced"}, "--class_weights=balanced: ", *OTHERS),
    ({"focal_gamma": 2}, "--focal_gamma=2.0: ", *OTHERS),
    ({"threshold": 0.5}, "--threshold=0.5: ", *OTHERS),
    ({"crf": True}, "--crf=True: ", *OTHERS),
    ({"doc_stride": 8}, "--doc_stride=8: ", *DOES_NOTHING),
    ({"max_segments": 2}, "--max_segments=2: ", *DOES_NOTHING),
    ({"truncation": "tail"}, "--truncation=tail: ", *DOES_NOTHING),
    ({"n_best_size": 5}, "--n_best_size=5: ", *OTHERS),
    ({"max_seq_length": 3}, "train.jsonl: no row has room for a token", "raise --max"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "fragments"), [(f, m) for f, *m in FLAGS], ids=str)
def test_flags(refused, flags, fragments):
    refused(GOOD, *fragments, **flags)


def test_a_flag_of_a_built_in_task(tiny, inside, tmp_path):
    args = tiny.flags(tmp_path / "out", do_train=True, slot_marker="_")
    assert_refused(inside(args), "--slot_marker: mrpc is a built-in task")


def test_a_marker_of_the_flag_wins(refused):
    """Over that of task.json, in which [SLOT] is a text like others."""
    own = {"slot_marker": "[GAP]"}
    content = row(target="sun [SLOT]")
    refused(content, ":21: the target has [SLOT]", task=own, slot_marker="[SLOT]")


def test_a_dev_file(refused, tmp_path):
    """What is evaluated is looked at before the training, too."""
    dev = tmp_path / "dev.jsonl"
    dev.write_bytes(row(**MARKED))
    refused(GOOD, f"{dev}:21: the target has [SLOT]", dev_file=dev, do_eval=True)


# -- models ---------------------------------------------------------------------------


def own_model(work, **flags):
    """The flags of a copy of the workspace, with data of its own."""
    rewriting.write_task(work.root / "mine", (20, 4, 4))
    given = {"data_dir": work.root / "mine", "do_train": True, "max_insert": 3, **flags}
    return work.flags(work.root / "new", "mine", **given)


def test_a_model_with_one_type_of_token(work, inside):
    edit_config(work, type_vocab_size=1)
    start = work.model / "bert_model.ckpt"
    wanted = f"--init_checkpoint={start}: the model has one token type", "another"
    assert_refused(inside(own_model(work)), *wanted)


def test_a_vocabulary_without_masks(work, inside):
    write_vocab(work, ["mask" if token == "[MASK]" else token for token in VOCAB])
    vocab = work.model / "vocab.txt"
    wanted = f"{vocab}: none of its {len(VOCAB)} lines is [MASK]: pass", "--vocab_file"
    assert_refused(inside(own_model(work)), *wanted)


@pytest.fixture
def short(rewriter, tmp_path):
    """A copy of the output_dir of a training of one step."""
    own = rewriter(max_train_steps=1, do_eval=None, do_predict=None)
    return shutil.copytree(own, tmp_path / "out")


IDENTITY = {
    "max_insert": (5, "max_insert (was 3, is 5)"),
    "slot_marker": ("[GAP]", "slot_marker (was [SLOT], is [GAP])"),
    "target_column": ("context", "'target' is the column 'context'"),
}


@pytest.mark.parametrize("flag", IDENTITY)
def test_a_resume_with_another(flags, inside, short, flag):
    value, named = IDENTITY[flag]
    args = flags(short, do_train=True, max_train_steps=2, **{flag: value})
    assert_refused(inside(args), named)


@pytest.mark.parametrize("flag", ["max_insert", "slot_marker"])
def test_predictions_by_a_model_with_another(inside, short, data, flag):
    value, _ = IDENTITY[flag]
    args = [f"--output_dir={short}", "--do_predict=true", "--xla=off"]
    args += [f"--predict_file={data / 'test.jsonl'}", f"--{flag}={value}"]
    assert_refused(inside(args), f"--{flag}", str(value))
    assert not (short / "predict.txt").exists()


def test_a_text_without_its_context(inside, short):
    args = [f"--output_dir={short}", "--predict_text=sun", "--xla=off"]
    assert_refused(inside(args), "pairs of texts")


def test_predictions_read_no_target(inside, short, tmp_path):
    """Nor is it a mistake where one is missing, or no text."""
    file = tmp_path / "new.jsonl"
    rows = [{"source": "sun", "context": 7}, {"source": "", "context": "", "target": 1}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = [f"--output_dir={short}", "--do_predict=true", f"--predict_file={file}"]
    code, _, err = inside([*args, "--xla=off"])
    assert code == 0, err
    assert len((short / "predict.txt").read_text().splitlines()) == 2
