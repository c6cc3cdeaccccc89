"""Samples of rows, and of groups of rows, which stay whole."""

import collections

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import registry, row_groups
from bert_mgpu.tasks.dataset import TaskDataset
from tests.support import ranked


def rows(groups):
    return [Example("", f"t{n}", group=group, line=n) for n, group in enumerate(groups)]


@pytest.mark.parametrize("numbers", ["counters", "numpy"])
def test_a_sample_is_of_whole_groups(numbers):
    groups = [f"q{n % 200}" for n in range(2000)]
    examples = rows(groups)
    found = row_groups.sample(examples, 300, 1, groups=groups, random_numbers=numbers)
    sizes = collections.Counter(one.group for one in found)
    assert len(found) == 300 and {*sizes.values()} == {10}
    assert [one.line for one in found] == sorted(one.line for one in found)
    other = row_groups.sample(examples, 300, 2, groups=groups, random_numbers=numbers)
    assert {one.group for one in other} != {*sizes}


def test_groups_of_several_sizes_and_rows_in_none():
    groups = [f"q{n % 7}" if n % 3 else None for n in range(900)]
    found = row_groups.sample(rows(groups), 90, 0, groups=groups)
    sizes, whole = (collections.Counter(g) for g in ([e.group for e in found], groups))
    alone = sizes.pop(None)
    assert alone and all(size == whole[group] for group, size in sizes.items())
    few = row_groups.sample(rows(groups), 1, 0, groups=groups)
    assert len({one.group or one.line for one in few}) == 1


def test_as_many_as_there_are():
    examples = rows(["q"] * 5)
    assert row_groups.sample(examples, 5, 0, groups=["q"] * 5) == examples
    assert row_groups.sample(examples, None, 0, groups=["q"] * 5) == examples


@pytest.mark.parametrize("task", ["mine", "ad"])
def test_sets_keep_their_groups_whole(tmp_path, task):
    folder = tmp_path / task
    if task == "ad":
        ranked.write_ads(folder)
    else:
        parts = {name: ranked.small(30, 1) for name in ("train", "dev")}
        ranked.write(folder, parts, labels=["no", "yes"])

    def read(**flags):
        config = FinetuneConfig(
            task_name=task, data_dir=str(folder), do_eval=True, **flags
        )
        files = registry.find_task_files(config)
        family = registry.family_of(files, config)
        data = TaskDataset(config, files, family, model=None, cache=tmp_path)
        found = data.examples("dev")
        return collections.Counter(row_groups.keys(files, found))

    whole, sampled = read(), read(max_eval_examples=9)
    assert 0 < len(sampled) < len(whole)
    assert all(size == whole[group] for group, size in sampled.items())
