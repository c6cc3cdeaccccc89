"""Every mistake gives one line that says what to do, and changes no file."""

import errno
import json
import os
import resource
import time

import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.runs import finetune
from tests.support.processes import process
from tests.support.runs import assert_refused, tree
from tests.support.tiny import MRPC_HEADER, edit_config

BAD_FLAGS = [
    ({"do_trian": True}, "--do_trian: there is no such flag", "--do_train?"),
    ({"zzz": 1}, "--zzz: there is no such flag (--help"),
    ({"n_gpus": 2.5}, "--n_gpus=2.5: pass a whole number"),
    ({"learning_rate": "2e5x"}, "--learning_rate=2e5x: pass a number"),
    ({"do_eval": "maybe"}, "--do_eval=maybe: pass true or false"),
    ({"truncation": "middle"}, "--truncation=middle: pass one of head, tail"),
    ({"vocab_file": "--do_eval"}, "--do_eval: no such file"),
    ({"n_gpus": 0}, "--n_gpus=0: pass at least 1"),
    ({"train_batch_size": 0}, "--train_batch_size=0: pass at least 1"),
    ({"eval_batch_size": -8}, "--eval_batch_size=-8: pass at least 1"),
    ({"learning_rate": -1e-5}, "--learning_rate=-1e-05: pass at least 0"),
    ({"learning_rate": "nan"}, "--learning_rate=nan: pass a finite number"),
    ({"learning_rate": "inf"}, "--learning_rate=inf: pass a finite number"),
    ({"use_tpu": True}, "--use_tpu=true: ", "pass --n_gpus"),
    ({"task_name": None}, "--task_name is missing"),
    ({"data_dir": None}, "--data_dir is missing"),
    ({"task_name": "mprc"}, "--task_name=mprc is not built in: did you mean mrpc?"),
    ({"task_name": "a\nb"}, "--task_name=a b is not built in"),
    ({"do_train": None}, "nothing to do: pass --do_train=true"),
    ({"predict_text": ""}, "--predict_text is empty: pass a text"),
    ({"data_dir": "/nowhere"}, "--data_dir=/nowhere: no such folder"),
    ({"data_dir": __file__}, f"--data_dir={__file__}: a file: pass the folder"),
    ({"max_seq_length": 513}, "--max_seq_length=513: ", "64 positions", "most 64"),
    ({"max_seq_length": 65}, "--max_seq_length=65: ", "64 positions", "most 64"),
    ({"vocab_file": None}, "--vocab_file is missing"),
    ({"vocab_file": "/no"}, "/no: no such file: / holds "),
    ({"bert_config_file": "/no"}, "/no: no such file: / holds "),
    ({"init_checkpoint": "/no"}, "/no: no such file: / holds "),
    ({"init_checkpoint": "/no/no"}, "--init_checkpoint=/no/no: no such checkpoint"),
    ({"vocab_file": "/" + "n" * 300}, "n: cannot use it: File name too long: check"),
    ({"init_checkpoint": f"{__file__}/no"}, "/no: no such checkpoint: pass"),
    ({"export_hf": f"{__file__}/no"}, "/no: cannot export: ", "not a writable folder"),
    ({"head_tokens": 5}, "--head_tokens does nothing without --truncation=head_tail"),
    ({"export_tokenizer": "tf"}, "does nothing without --export_saved_model: pass"),
    ({"train_batch_size": 100}, "24 rows x 1 epochs", "batch of 100: lower"),
]


@pytest.mark.parametrize(
    ("flags", "fragments"), [(f, m) for f, *m in BAD_FLAGS], ids=str
)
def test_bad_flags(work, expect_refused, flags, fragments):
    if "vocab_file" in flags:  # else the one beside the checkpoint is taken
        (work.model / "vocab.txt").rename(work.root / "elsewhere")
    expect_refused(work, *fragments, **flags)


def test_positions_beyond_512_are_refused(work, expect_refused):
    edit_config(work, max_position_embeddings=1024)
    expect_refused(work, "--max_seq_length=513", "at most 512", max_seq_length=513)


TRAIN = "1\t1\t2\tsun\tjoy\n0\t1\t2\train\tloss\n"
HEADER = f"{MRPC_HEADER}\n"
BAD_ROWS = [
    ("1\t1\t2\tsun\n", "4 columns, but the task mrpc needs column 4"),
    ("2\t1\t2\tsun\tjoy\n", "label '2' is not one of 0, 1"),
    ("\n", "blank line: delete it"),
    ("1\t1\t2\tsu\0n\tjoy\n", "NUL byte at column 9"),
    ("1\t1\t2\t新闻\tjoy\n".encode("gb18030"), "not UTF-8", "iconv -f GB18030"),
]


@pytest.mark.parametrize("file", ["train.tsv", "dev.tsv"])
@pytest.mark.parametrize(("row", "fragments"), [(r, m) for r, *m in BAD_ROWS], ids=str)
def test_bad_rows(work, expect_refused, file, row, fragments):
    path = work.data() / file
    row = row if isinstance(row, bytes) else row.encode()
    path.write_bytes((HEADER + TRAIN).encode() + row)
    expect_refused(work, f"{path}:4: ", *fragments, do_eval=True)


def test_missing_and_empty_files(work, expect_refused):
    train, dev = work.data() / "train.tsv", work.data() / "dev.tsv"
    dev.rename(work.data() / "Dev.tsv")
    message = f"{dev}: no such file: {work.data()} holds Dev.tsv"
    expect_refused(work, message, do_eval=True)
    expect_refused(
        work,
        "/nowhere/x.tsv: there is no directory /nowhere",
        do_predict=True,
        predict_file="/nowhere/x.tsv",
    )
    train.write_text(HEADER)
    expect_refused(work, f"{train}: no rows for the task mrpc")
    train.write_text("")
    expect_refused(work, f"{train}: no rows for the task mrpc")


def test_a_pipe_cannot_be_read_twice(work, expect_refused):
    pipe = work.root / "pipe"
    os.mkfifo(pipe)
    message = f"{pipe}: a pipe or a device, which cannot be read twice"
    expect_refused(work, message, do_predict=True, predict_file=pipe)


def test_an_empty_text_is_no_mistake(work, inside):
    rows = HEADER + TRAIN * 2 + "0\t1\t2\t\t\n" + "1\t1\t2\tsun\t\n"
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        (work.data() / name).write_text(rows)
    flags = {"do_train": True, "do_eval": True, "do_predict": True}
    code, _, err = inside(work.flags(work.root / "out", **flags))
    assert code == 0, err
    assert len((work.root / "out" / "predict.txt").read_text().splitlines()) == 6


BAD_TASKS = [
    ("{", "not a JSON file"),
    ("[]", "not a JSON object"),
    ({"labl": 0}, "unknown key 'labl': did you mean 'label'?"),
    ({"text_a": [1]}, "'text_a' is [1], but must be of type int or str"),
    ({"text_a": True}, "'text_a' is True, but must be of type int or str"),
    ({"text_a": -2}, "'text_a' is -2: columns count from 0"),
    ({"text_a": None}, "'text_a' is missing: give it, or --text_a_column"),
    ({"text_a": "text", "header": False}, "'text_a' is 'text': without a header"),
    ({"header": 1}, "'header' is 1, but must be of type bool"),
    ({"format": "xlsx"}, "'format' is 'xlsx': pass one of tsv, csv, jsonl, parquet"),
    ({"encoding": "utf-16"}, "'encoding' is 'utf-16': pass one of utf-8, gb18030"),
    ({"type": "binary"}, "'type' is 'binary': pass one of single, multi, regression"),
    ({"label_separator": ";"}, "'label_separator' is only for the type 'multi'"),
    ({"type": "multi", "label_separator": ""}, "'label_separator' is empty"),
    (
        {"type": "regression", "labels": ["a", "b"]},
        "'labels': the type 'regression' has no names of labels",
    ),
    ({"train": "/etc/passwd"}, "'train' is '/etc/passwd': name a file inside"),
    ({"dev": "../dev.tsv"}, "'dev' is '../dev.tsv': name a file inside data_dir"),
    ({"labels": ["no", "no"]}, "'labels' names a label twice"),
    ({"labels": ["no", ""]}, "'labels' must be a list of strings"),
    ({"label": None}, "'label' is missing"),
    ({"label": 1}, "'label' is 1, a column of the text: pass that of the label"),
]
BAD_OWN_FLAGS = [
    ({"train_file": "x.tsv"}, "x.tsv: no such file"),
    ({"file_format": "xls"}, "--file_format is 'xls': pass one of tsv, csv"),
    ({"encoding": "utf-7"}, "--encoding is 'utf-7': pass one of utf-8"),
    ({"text_a_column": -3}, "--text_a_column is -3: columns count from 0"),
    ({"task_type": "multy"}, "--task_type is 'multy': pass one of single"),
    ({"labels": "no,no"}, "--labels names a label twice"),
    ({"labels": "no,,yes"}, "--labels must be a list of strings, not empty"),
    (
        {"label_column": 5},
        "train.tsv:1: 2 columns, but column 5 (counted from 0) is needed",
    ),
    ({"label_column": "label"}, "train.tsv:1: no column 'label'"),
    ({"class_weights": "/no"}, "/no: no such file"),
    ({"threshold": 2}, "--threshold=2: pass a probability"),
    ({"focal_gamma": -1}, "--focal_gamma=-1.0: pass at least 0"),
    ({"task_type": "regression"}, "train.tsv:1: label 'no' is not a number"),
    ({"task": "mrpc", "label_column": 0}, "--label_column: mrpc is a built-in task"),
]


@pytest.mark.parametrize(("changed", "fragment"), BAD_TASKS, ids=str)
def test_bad_task_files(work, expect_refused, changed, fragment):
    path = work.data("own") / "task.json"
    if isinstance(changed, dict):
        values = {**json.loads(path.read_text()), **changed}
        changed = json.dumps({k: v for k, v in values.items() if v is not None})
    path.write_text(changed)
    expect_refused(work, f"{path}: {fragment}", task="own")


@pytest.mark.parametrize(("flags", "fragment"), BAD_OWN_FLAGS, ids=str)
def test_bad_flags_of_a_task_of_ones_own(work, expect_refused, flags, fragment):
    expect_refused(work, fragment, **{"task": "own", **flags})


def test_labels_of_a_task_of_ones_own(work, expect_refused):
    folder = work.data("own")
    (folder / "dev.tsv").write_text("no\train\nmaybe\tsun\n")
    message = f"{folder / 'dev.tsv'}:2: label 'maybe' is not one of no, yes"
    expect_refused(work, message, task="own", do_eval=True)
    (folder / "train.tsv").write_text("no\train\nno\tloss\n")
    message = f"{folder / 'train.tsv'}: every row has the label 'no'"
    expect_refused(work, message, task="own")


def test_an_output_dir_that_cannot_be(work, inside):
    out = work.root / "out" / "predict.txt" / "here"
    message = f"error: --output_dir={out}: cannot write there: Not a directory"
    assert_refused(inside(work.flags(out, do_train=True)), message)


@pytest.mark.parametrize("name", ["run [1]", "a\\b"])
def test_an_output_dir_that_is_a_pattern_to_tensorflow(work, inside, name):
    """Refused before the training, whose checkpoints could not be read."""
    out = work.root / name
    assert_refused(inside(work.flags(out, do_train=True)), "give the folder another")
    assert not out.exists()
    fine = work.root / "run [1"
    assert inside(work.flags(fine, do_train=True))[0] == 0


def test_without_an_output_dir(work, inside):
    assert_refused(inside(work.flags("", do_train=True)), "--output_dir is missing")


FULL = tf.errors.ResourceExhaustedError(
    None, None, "Failed to flush\nevents.v2; No space left on device"
)
NO_MEMORY = tf.errors.InternalError(
    None, None, "CUBLAS_STATUS_ALLOC_FAILED when creating"
)


@pytest.mark.parametrize(
    ("fault", "code", "fragment"),
    [
        (OSError(errno.ENOSPC, "No space left", "a/b"), 2, "a/b: No space left: free"),
        (FULL, 2, "events.v2; No space left: free"),
        (NO_MEMORY, 4, "CUBLAS_STATUS_ALLOC_FAILED when creating: pass"),
        (MemoryError(), 4, "out of memory: pass"),
        (ValueError("room for\nfaults"), 1, "ValueError: room for"),
        (KeyboardInterrupt(), 130, "stopped: stopped by Ctrl-C"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_faults_that_are_no_mistakes(work, inside, monkeypatch, fault, code, fragment):
    def fail(*_, **__):
        raise fault

    monkeypatch.setattr(finetune, "finetune", fail)
    got, _, err = inside(work.flags(work.root / "out", do_train=True))
    assert got == code
    assert fragment in err
    assert ("Traceback" in err) == (code == 1) == ("please report it" in err)


# The rest needs processes of its own.


def test_without_a_gpu(work, script):
    out = work.root / "out"
    before = tree(out)
    result = script(work.flags(out, do_train=True, device="gpu"))
    assert_refused(result, "--device=gpu: TensorFlow sees no GPU", "pass --device=cpu")
    assert tree(out) == before


def test_two_runs_in_one_output_dir(work, script):
    out = work.root / "out"
    long = work.flags(out, do_train=True, num_train_epochs=1e5, log_steps=1)
    first = process(long)
    try:
        while not (out / "metrics.jsonl").exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.1)
        result = script(work.flags(out, do_train=True))
        message = f"--output_dir={out}: another run is working in it: wait for it"
        assert_refused(result, message)
        assert first.poll() is None
    finally:
        first.terminate()
        first.communicate()
    assert google_read.read(out)["global_step"] > 0


@pytest.mark.nightly
def test_a_full_disk(resumed, script):
    """No file may grow beyond 200 kB, which a checkpoint exceeds."""
    out = resumed.root / "out"
    kept = {"model.ckpt-6.index", "model.ckpt-6.data-00000-of-00001", "checkpoint"}
    before = tree(out)
    result = script(
        resumed.flags(out, do_train=True, num_train_epochs=2),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000,) * 2),
    )
    message = f"{out}/model.ckpt-12: cannot save the checkpoint"
    assert_refused(result, message, "free some space", "resume at step 6")
    after = tree(out)
    assert all(after[name] == before[name] for name in kept)
    code, _, err = script(resumed.flags(out, do_train=True, num_train_epochs=2))
    assert code == 0, err
    assert google_read.read(out)["global_step"] == 12


def test_the_real_command_line(work, script):
    """What the tests above check in-process is what a shell sees."""
    out, new = work.root / "out", work.root / "new"
    before = tree(out)
    for flags, *fragments in (
        ({"do_trian": True}, "--do_trian", "did you mean --do_train?"),
        ({"task_name": "mprc"}, "did you mean mrpc?"),
        ({"do_eval": "maybe"}, "--do_eval=maybe: pass true or false"),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere"),
        ({"data_dir": "/" + "n" * 300}, "no such folder"),
    ):
        assert_refused(
            script(work.flags(new, **{"do_train": True, **flags})), *fragments
        )
        assert not new.exists()  # it was said before anything was loaded or made
    (work.model / "bert_model.ckpt.index").write_bytes(b"")
    assert_refused(
        script(work.flags(out, do_train=True)), "bert_model.ckpt.index: damaged"
    )
    assert tree(out) == before
