"""What a run cannot change when it resumes: each of it is refused by its name."""

import dataclasses
import pathlib
import types

import pytest

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import fields
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import identity
from bert_mgpu.text.tokenization import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
OUT = pathlib.Path("out")


def other(field):
    """Another value than the default of a flag, of its type."""
    if choices := field.metadata["choices"]:
        return next(choice for choice in choices if choice != field.default)
    if field.default is None:
        return {"int": 7, "float": 0.5}.get(str(field.type).split(" ")[0], "other")
    if isinstance(field.default, bool):
        return not field.default
    return field.default + 1 if isinstance(field.default, int | float) else "other"


@pytest.fixture
def facts(tmp_path):
    """facts(config, ...) -> the identity of a run."""

    def make(config, tokens=TOKENS, lower=True, bert=None, batch=8, rate=1e-4, **more):
        (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        words = Tokenizer(tmp_path / "vocab.txt", lower)
        bert = bert or BertConfig(len(TOKENS))
        model = Pretrained(
            bert, "config", words, vocab_file="vocab", do_lower_case=lower, labels=None
        )
        values = {"name": "own", "labels": ("no", "yes")}
        values |= {"facts": {"task_type": "single"}} | more
        data = values.pop("data", {"data_dir": "key"})
        task = types.SimpleNamespace(**values)
        return identity.identity(
            config, model, task, data=data, batch=batch, peak_rate=rate
        )

    return make


@pytest.mark.parametrize("table", [FinetuneConfig, PretrainConfig])
def test_a_flag_of_the_identity_is_compared(facts, table):
    config = table(max_seq_length=16)
    old = facts(config)
    compared = [field for field in fields(table) if field.metadata["identity"]]
    assert {"max_seq_length", "seed", "precision"} <= {one.name for one in compared}
    for field in compared:
        if field.name == "task_name":  # the task's own name stands for it, see below
            continue
        changed = dataclasses.replace(config, **{field.name: other(field)})
        with pytest.raises(UserError) as error:
            identity.check_identity(changed, old, facts(changed), output_dir=OUT)
        assert f"--{field.name} (was" in str(error.value), field.name
    free = [field for field in fields(table) if not field.metadata["identity"]]
    for field in free:
        changed = dataclasses.replace(config, **{field.name: other(field)})
        identity.check_identity(changed, old, facts(changed), output_dir=OUT)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"tokens": [*TOKENS[:-1], "b"]}, "vocab_file"),
        ({"lower": False}, "do_lower_case"),
        ({"bert": BertConfig(len(TOKENS), hidden_size=384)}, "bert_config_file"),
        ({"labels": ("yes", "no")}, "labels"),
        ({"facts": {"task_type": "multi"}}, "task_type"),
        ({"name": "other"}, "task_name"),
        ({"data": {"data_dir": "another"}}, "data_dir"),
        ({"batch": 16}, "train_batch_size x n_gpus x gradient_accumulation_steps"),
        ({"rate": 2e-4}, "learning_rate x --lr_scaling"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fact_of_the_identity_is_compared(facts, changed, named):
    config = FinetuneConfig(max_seq_length=16)
    with pytest.raises(UserError) as error:
        identity.check_identity(
            config, facts(config), facts(config, **changed), output_dir=OUT
        )
    assert named.split(" x ")[0] in str(error.value)
    identity.check_identity(config, facts(config), facts(config), output_dir=OUT)


def test_a_run_that_did_not_know_a_flag_had_its_default(facts):
    config = FinetuneConfig(max_seq_length=16)
    old = {name: value for name, value in facts(config).items() if name != "optimizer"}
    identity.check_identity(config, old, facts(config), output_dir=OUT)
    changed = dataclasses.replace(config, optimizer="lamb")
    with pytest.raises(UserError, match="--optimizer"):
        identity.check_identity(changed, old, facts(changed), output_dir=OUT)


def test_later_flags_do_not_make_another_run_of_it(facts):
    """best.json has a hash of what differs from the defaults, and of other facts."""
    config = FinetuneConfig(max_seq_length=16)
    own = identity.without_defaults(config, facts(config))
    assert own["max_seq_length"] == 16 and own["data_dir"] == "key"
    assert not {"optimizer", "seed", "precision"} & {*own}
    other = dataclasses.replace(config, optimizer="lamb")
    changed = identity.without_defaults(other, facts(other))
    assert changed == own | {"optimizer": "lamb"}


def test_the_seed_of_a_sample_is_compared(facts):
    """Those of --seeds share the first one's; without a sample there is none."""
    config = FinetuneConfig(max_seq_length=16, seed=7, max_train_examples=5)
    shared = dataclasses.replace(config, sampled_by=6)
    own, old = facts(config), facts(shared)
    assert facts(dataclasses.replace(config, sampled_by=7)) == own
    whole = dataclasses.replace(shared, max_train_examples=None)
    assert facts(whole) == own | {"max_train_examples": None}
    with pytest.raises(UserError, match=r"seed of --max_train_examples .was 7, is 6"):
        identity.check_identity(shared, own, old, output_dir=OUT)
    with pytest.raises(UserError, match=r"seed of --max_train_examples .was 6, is 7"):
        identity.check_identity(config, old, own, output_dir=OUT)
    other = dataclasses.replace(config, sampled_by=5)
    with pytest.raises(UserError, match=r"seed of --max_train_examples .was 6, is 5"):
        identity.check_identity(other, old, facts(other), output_dir=OUT)
    used = {name: own[name] for name in ("labels", "vocab_file")}
    identity.check_identity(config, old, used, output_dir=OUT)  # a prediction
    assert identity.without_defaults(shared, old) == identity.without_defaults(
        config, own
    )
