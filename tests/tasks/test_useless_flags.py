"""A flag that would do nothing for a task's type is refused, and says whose it is."""

import pytest

from bert_mgpu.config.base import FlagTable, fields
from bert_mgpu.config.finetuning import LONG_TEXT_FLAGS, FinetuneConfig, FinetuneFlags
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.files import Columns, TaskFiles


def files_of(task_type):
    paths = dict.fromkeys(("train", "dev", "test"))
    return TaskFiles("mine", (), **paths, columns=Columns(0), task_type=task_type)


def family_of(task_type, **flags):
    config = FinetuneConfig(**flags, given=frozenset(flags))
    return registry.family_of(files_of(task_type), config)


def refused(task_type, **flags):
    with pytest.raises(UserError) as error:
        family_of(task_type, **flags)
    message = str(error.value)
    assert message.endswith(": leave the flag out") and "\n" not in message
    return message.removesuffix(": leave the flag out")


@pytest.mark.parametrize(
    ("task", "flags", "told"),
    [
        ("mrpc", {}, True),
        ("sentiment", {}, True),  # whose lines hold both texts
        ("cola", {}, False),
        ("ad", {}, True),
        ("ad", {"ad_slot": "words"}, False),  # rows of the ad alone
    ],
)
def test_truncation_that_pairs_ignore_is_told(task, flags, told):
    config = FinetuneConfig(task_name=task, truncation="tail", **flags)
    lines = registry.remarks(config, registry.find_task_files(config))
    assert any("--truncation=tail: pairs" in line for line in lines) == told


def test_every_flag_is_of_all_types_or_of_those_of_a_table():
    shared = {field.name for field in fields(FinetuneFlags)}
    tables = {kind.flags for kind in registry.TYPES.values()}
    own = [field.name for table in tables for field in fields(table)]
    assert len(own) == len({*own}) > 20
    assert shared.isdisjoint(own)
    assert {field.name for field in fields(FinetuneConfig)} == shared | {*own}


@pytest.mark.parametrize("task_type", registry.TYPES)
def test_flags_of_other_types(task_type):
    for table in {kind.flags for kind in registry.TYPES.values()}:
        assert table is not FlagTable
        own = [name for name, kind in registry.TYPES.items() if kind.flags is table]
        for field in fields(table):
            flags = {field.name: field.default}
            if task_type in own:
                assert family_of(task_type, **flags)
                continue
            whose = " or ".join(map(repr, own))
            assert refused(task_type, **flags) == (
                f"--{field.name}={field.default}: only for the type {whose},"
                f" not {task_type!r}"
            )


def test_the_types_of_a_flag_are_named():
    types = "'single' or 'multi' or 'regression'"
    expected = f"--threshold=0.5: only for the type {types}, not 'tags'"
    assert refused("tags", threshold="0.5") == expected
    assert refused("qa", crf=True) == "--crf=True: only for the type 'tags', not 'qa'"


@pytest.mark.parametrize("task_type", ["tags", "qa", "rewrite"])
@pytest.mark.parametrize("name", LONG_TEXT_FLAGS)
def test_long_texts_of_types_that_read_all_of_them(task_type, name):
    why = {"rewrite": "leaves text beyond --max_seq_length unchanged"}
    said = why.get(task_type, "reads long texts in windows")
    message = refused(task_type, **{name: 4})
    assert message == f"--{name}=4: the type {task_type!r} {said}"
    assert family_of("single", **{name: 4})


def test_what_a_family_refuses_itself():
    said = "the type 'qa' has no dropout before its head"
    assert refused("qa", classifier_dropout=0.5) == f"--classifier_dropout=0.5: {said}"
    said = "the type 'rewrite' has no export, since a text takes several passes"
    for name in ("export_hf", "export_saved_model", "export_onnx"):
        assert refused("rewrite", **{name: "new"}) == f"--{name}=new: {said}"


def test_what_is_not_given_is_not_refused():
    """A trained model's settings, which fill those that are not given."""
    for task_type in registry.TYPES:
        config = FinetuneConfig(crf=True, max_segments=4)
        assert registry.family_of(files_of(task_type), config)
