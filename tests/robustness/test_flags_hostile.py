"""Every flag of every script with values of the wrong kind: refused, or legal."""

import os
import pathlib

import pytest

from bert_mgpu.cli import (
    create_pretraining_data,
    domain_vocab,
    learn_vocab,
    make_rewrite_data,
    run_classifier,
    run_pretraining,
)
from bert_mgpu.config import base, finetuning, parsing, preparation, pretraining
from bert_mgpu.config import domain_vocab as domain_vocab_lib
from bert_mgpu.config import learn_vocab as learn_vocab_lib
from bert_mgpu.config import rewrite_data as rewrite_data_lib
from bert_mgpu.core.errors import UserError
from tests.support.hostile_rows import everything

TABLES = {
    "run_classifier_mgpu.py": finetuning.FinetuneConfig,
    "run_pretraining_mgpu.py": pretraining.PretrainConfig,
    "create_pretraining_data.py": preparation.PreparationConfig,
    "domain_vocab.py": domain_vocab_lib.DomainVocabConfig,
    "learn_vocab.py": learn_vocab_lib.LearnVocabConfig,
    "make_rewrite_data.py": rewrite_data_lib.RewriteDataConfig,
}
CHECKS = {
    "run_classifier_mgpu.py": run_classifier.check,
    "run_pretraining_mgpu.py": run_pretraining.check,
    "create_pretraining_data.py": create_pretraining_data._check_flags,
    "domain_vocab.py": domain_vocab._check,
    "learn_vocab.py": learn_vocab._check,
    "make_rewrite_data.py": make_rewrite_data._check,
}
SURROGATES = os.fsdecode(b"\xd0\xc2\xce\xc5")  # GBK bytes of a command line
LONG = "x" * 10_000
VALUES = {
    "text": "abc",
    "empty": "",
    "negative": "-1",
    "zero": "0",
    "1e30": "1e30",
    "10^30": str(10**30),
    "1e999": "1e999",
    "10,000 digits": "9" * 10_000,
    "nan": "nan",
    "inf": "-inf",
    "fraction": "2.5",
    "NUL": "a\0b",
    "10,000 characters": LONG,
    "line's end": "a\nb",
    "a path with one": "/nowhere/a\nb/c",
    "no UTF-8": SURROGATES,
    "a path without": f"/nowhere/{SURROGATES}",
    "a flag": "--do_train",
    "blanks": "  ",
    "other digits": "\u0663",
    "quotes": "'\"$(touch made)`",
}
NUMBERS = ("int", "float")
# What no value of the kind can be: all others may be, within the bounds of a flag.
WRONG = {
    "bool": {*VALUES} - {"zero"},
    "int": {*VALUES} - {"negative", "zero", "other digits"},
    "float": {"text", "empty", "1e999", "10,000 digits", "nan", "inf", "NUL", "quotes"}
    | {"10,000 characters", "line's end", "a path with one", "no UTF-8", "blanks"}
    | {"a path without", "a flag"},
    "choice": {*VALUES},
    "str": {"NUL", "no UTF-8", "a path without"},
}
CASES = [
    (script, field.name)
    for script, table in TABLES.items()
    for field in base.fields(table)
]


def kind_of(field):
    if field.metadata["choices"]:
        return "choice"
    return str(field.type).removesuffix(" | None")


def refusal(script, args):
    """The line of an error of the settings alone; None where they are legal."""
    try:
        settings, _ = parsing.parse([script, *args], "", TABLES[script])
    except UserError as error:
        return str(error)
    try:
        CHECKS[script](settings)
    except (UserError, OSError):  # what lacks; a name that the system refuses
        return None
    return None


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder in which we are: nothing may appear in it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("script", "name"), CASES, ids=lambda text: text.partition(".")[0]
)
def test_values_of_the_wrong_kind(elsewhere, script, name):
    (field,) = (f for f in base.fields(TABLES[script]) if f.name == name)
    kind, least = kind_of(field), field.metadata["minimum"]
    most = field.metadata["maximum"] or parsing._MOST
    for what, value in VALUES.items():
        output = refusal(script, [f"--{name}={value}"])
        wrong = what in WRONG[kind]
        if not wrong and kind in NUMBERS and least is not None:
            wrong = not least <= float(value) <= (most if kind == "int" else 1e999)
            wrong = wrong or not float(value) <= (field.metadata["maximum"] or 1e999)
        assert (output is not None) == wrong, (what, output)
        if output is not None:
            assert f"--{name}" in output and len(output) < 300, (what, output)


REFUSED = [
    ("text", "n_gpus"),
    ("10^30", "n_gpus"),
    ("10,000 digits", "max_seq_length"),
    ("nan", "learning_rate"),
    ("NUL", "output_dir"),
    ("no UTF-8", "output_dir"),
    ("line's end", "do_train"),
    ("10,000 characters", "padding"),
]


@pytest.mark.parametrize(("what", "name"), REFUSED, ids=str)
@pytest.mark.parametrize("script", [*TABLES][:2])
def test_a_script_says_it_in_one_line(elsewhere, capfd, script, what, name):
    main = {"run_classifier_mgpu.py": run_classifier}.get(script, run_pretraining).main
    code = main([script, f"--{name}={VALUES[what]}"])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --{name}") and err.count("\n") == 1
    assert len(err) < 300


# Flags of texts that are read further: legal as text, and no file or name of anything.
NAMES = (
    "data_dir",
    "train_file",
    "file_format",
    "encoding",
    "text_a_column",
    "label_column",
    "labels",
    "task_type",
    "eval_files",
    "predict_file",
    "freeze",
    "freeze_layers",
    "best_metric",
    "class_weights",
    "threshold",
    "init_checkpoint",
    "vocab_file",
    "bert_config_file",
)
TEXTS = [LONG, "/nowhere/a\nb/c", "9" * 10_000, "$(touch made)`"]
USED = {
    "eval_files": {"do_eval": True},
    "predict_file": {"do_predict": True},
    "best_metric": {"eval_steps": 1, "do_eval": True},
}


@pytest.mark.parametrize("name", NAMES)
def test_texts_that_name_nothing(tmp_path, tiny, inside, name):
    """They end a run before it trains, in one line that is no longer than a page."""
    for number, value in enumerate(TEXTS):
        out = tmp_path / str(number)
        args = {"do_train": True, name: value, **USED.get(name, {})}
        code, output, err = inside(tiny.flags(out, **{"task": "own", **args}))
        if name in ("text_a_column", "label_column") and value.isdecimal():
            assert code == 2
        last = err.splitlines()[-1]
        assert (code, output) == (2, ""), (value[:20], err[-300:])
        assert last.startswith("error: ") and err.count("error: ") == 1
        assert "Traceback" not in err and len(last) < 25_000
        assert not [*out.glob("model.ckpt*")] and not pathlib.Path("made").exists()


@pytest.mark.parametrize("name", ["export_hf", "export_saved_model", "cache_dir"])
def test_places_that_cannot_be(tmp_path, tiny, inside, name):
    (tmp_path / "file").touch()
    for value in (LONG, "/dev/null/x", "/proc/nowhere/x", tmp_path / "file" / "x"):
        out = tmp_path / "out"
        before = everything(tmp_path, out)
        code, output, err = inside(tiny.flags(out, do_train=True, **{name: value}))
        assert (code, output) == (2, ""), err[-300:]
        assert "Traceback" not in err and err.count("error: ") == 1
        assert everything(tmp_path, out) == before


def test_the_name_of_a_task_is_no_path(tmp_path, tiny, inside):
    """The cache calls its files after it."""
    out = tmp_path / "a" / "b" / "out"
    args = {"task": "../../../x\n" + "y" * 300, "data_dir": tiny.data("own")}
    args |= {"do_train": True, "train_batch_size": 100}
    before = everything(tmp_path, out)
    code, _, err = inside(tiny.flags(out, **args))
    assert code == 2 and "lower --train_batch_size" in err  # behind the cache
    assert len([*out.glob("cache/*.safetensors")]) == 1
    after = everything(tmp_path, out)
    assert after.keys() - before.keys() == {out.parent, out.parent.parent}


def test_a_name_of_10000_characters_is_no_flag(elsewhere):
    for dashes in ("-", "--"):
        with pytest.raises(UserError, match="there is no such flag") as caught:
            parsing.parse(["", f"{dashes}{LONG}=1"], "", finetuning.FinetuneConfig)
        assert len(str(caught.value)) < 300
