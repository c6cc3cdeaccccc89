"""Small faults, each of which some test must notice.

A fault stands where it would hurt a user: a wrong number, a lost row, a run that goes
on with other settings. `make mutants` plants them one by one.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A text of a file that is replaced, and the tests that must fail then."""

    name: str
    file: str  # below bert_mgpu/
    old: str  # stands there once
    new: str
    tests: str  # below tests/, with pytest's -k behind a blank, if any


_TYPES = "tasks/classification/problem_types.py"
_LABELS = "tasks/classification/test_labels.py"
_CACHE = "tasks/test_dataset.py"
_CHECKS = "tasks/classification/test_data_checks.py"
_STATE = "checkpoints/test_train_state.py"
_RATES = "training/test_schedule.py"
_DROPOUT = "model/test_dropout.py"
_THRESHOLDS = "tasks/classification/test_problem_types.py"
_IDENTITY = "runs/test_identity.py"

# fmt: off
MUTANTS = [
    Mutant("packed rows share the head's dropout", "tasks/classification/task.py",
           "first_row=dropout_key.first_row * places.shape[1]", "first_row=dropout_key.first_row",
           "tasks/classification/test_packed.py masks_of_their_own"),
    Mutant("padded rows count in the loss", "tasks/classification/task.py",
           'tf.reduce_sum(losses * batch["is_real_example"])', "tf.reduce_sum(losses)",
           "training/test_padding.py"),
    Mutant("a checkpoint is not read back", "checkpoints/train_state.py",
           "        google_read.verify(prefix)\n", "", _STATE),
    Mutant("the index is renamed first", "checkpoints/train_state.py",
           'key=lambda p: p.suffix == ".index")', 'key=lambda p: p.suffix != ".index")',
           _STATE),
    Mutant("a resume does not compare the casing", "runs/identity.py",
           '        "do_lower_case": model.do_lower_case,\n', "", _IDENTITY),
    Mutant("a resume does not compare the vocabulary", "runs/identity.py",
           'hashing.fingerprint({"tokens": model.words.tokens})', '"same"', _IDENTITY),
    Mutant("a resume does not compare flags", "runs/identity.py",
           'if field.metadata["identity"]]', "if field.name == 'seed']", _IDENTITY),
    Mutant("a resume takes another batch", "runs/identity.py",
           '"train_batch_size x n_gpus x gradient_accumulation_steps": batch,',
           '"train_batch_size x n_gpus x gradient_accumulation_steps": 0,', _IDENTITY),
    Mutant("labels in another order are taken", "tasks/classification/labels.py",
           "if continued or set(trained) == set(labels):", "if continued:", _LABELS),
    Mutant("a continued model loses its labels", "tasks/classification/labels.py",
           "        if trained is not None and continued:\n            return trained\n",
           "", _LABELS),
    Mutant("a label at its threshold is none", _TYPES,
           "return shares, shares >= least", "return shares, shares > least",
           _THRESHOLDS),
    Mutant("of two labels, at its threshold", _TYPES,
           "(second >= found.thresholds[1])", "(second > found.thresholds[1])",
           _THRESHOLDS),
    Mutant("balanced weights by labels that occur", _TYPES,
           "(len(labels) * np.maximum(counts, 1))",
           "((counts > 0).sum() * np.maximum(counts, 1))", _THRESHOLDS),
    Mutant("an export forgets --threshold of two labels", _TYPES,
           "        if thresholds is not None:\n            chosen = tf.cast(",
           "        if False:\n            chosen = tf.cast(",
           "end_to_end/test_exporting.py threshold"),
    Mutant("each step has the rate of the next one", "training/loop.py",
           "                step,\n                plan.peak_rate", "                done,\n                plan.peak_rate",
           "training/test_loop.py"),
    Mutant("the warm-up ends a step late", "training/schedule.py",
           "if step < warmup:", "if step <= warmup:", _RATES),
    Mutant("the decay starts after the warm-up", "training/schedule.py",
           "1.0 - step / steps)", "1.0 - (step - warmup) / (steps - warmup))", _RATES),
    Mutant("a cache of another vocabulary", "tasks/dataset.py",
           '            "tokenizer": self.model.tokenizer.fingerprint,\n', "", _CACHE),
    Mutant("a cache of another truncation", "tasks/dataset.py",
           '            "truncation": [config.truncation, config.head_tokens],\n', "", _CACHE),
    Mutant("a cache of another length", "tasks/dataset.py",
           '            "max_seq_length": config.max_seq_length,\n', "", _CACHE),
    Mutant("a cache of other labels", "tasks/dataset.py",
           '"labels": list(files.labels) if source.labelled else None', '"labels": None',
           _CACHE),
    Mutant("a cache of another sample", "tasks/dataset.py",
           "[keep, self._seed, config.random_numbers]", "[keep]", _CACHE),
    Mutant("a cache of other columns", "tasks/dataset.py",
           '"columns": _described(files.columns_of(source.split)),', '"columns": 0,',
           _CACHE),
    Mutant("a cache of other rows", "tasks/dataset.py",
           '"data": hashing.file_hash(source.path),', '"data": 0,', _CACHE),
    Mutant("ten times as many rows are not told", "tasks/classification/label_checks.py",
           "there.max() >= _IMBALANCE", "there.max() > _IMBALANCE", _CHECKS),
    Mutant("a [SEP] of pairs counts as a word", "tasks/data_checks.py",
           "- 2 * len(self.features) - pairs", "- 2 * len(self.features)", _CHECKS),
    Mutant("the last row of train may leak", "tasks/data_checks.py",
           "np.isin(other.keys, train.keys)", "np.isin(other.keys, train.keys[:-1])",
           _CHECKS),
    Mutant("the first row of train may leak", "tasks/data_checks.py",
           "np.isin(other.keys, train.keys)", "np.isin(other.keys, train.keys[1:])",
           _CHECKS),
    Mutant("the wrong text of a pair keeps the odd token", "text/truncation.py",
           "max((budget + 1) // 2, budget - len_b)", "max(budget // 2, budget - len_b)",
           "text/test_truncation.py"),
    Mutant("a tail loses its first token", "text/truncation.py",
           "len(kept) - (budget - head))]", "len(kept) - (budget - head) + 1)]",
           "text/test_truncation.py"),
    Mutant("a word of 200 characters is unknown", "text/tokenization.py",
           "if len(word) > MAX_WORD:", "if len(word) >= MAX_WORD:",
           "text/test_tokenization.py overlong"),
    Mutant("weight decay wears biases down", "training/rules.py",
           '(r"LayerNorm|layer_norm|bias", 0.0)', '(r"LayerNorm|layer_norm", 0.0)',
           "training/test_rules.py training/test_optimizers.py"),
    Mutant("the embeddings learn a layer too fast", "training/rules.py",
           "decay ** (layers + 1)),\n", "decay ** layers),\n",
           "training/test_rules.py"),
    Mutant("the clip takes a norm half as long", "training/update.py",
           "tf.sqrt(2.0 * tf.nn.l2_loss(gradient))", "tf.sqrt(tf.nn.l2_loss(gradient))",
           "training/test_trajectory.py training/test_precision.py"),
    Mutant("clipping sees the loss scale", "training/update.py",
           "    norm = norm / scale\n", "", "training/test_precision.py"),
    Mutant("all places of the network drop alike", "model/layers.py",
           "tf.cast(dropout_key.step * 65536 + site, tf.uint64)",
           "tf.cast(dropout_key.step * 65536, tf.uint64)", _DROPOUT),
    Mutant("every step drops alike", "model/layers.py",
           "tf.cast(dropout_key.step * 65536 + site, tf.uint64)",
           "tf.cast(dropout_key.step * 0 + site, tf.uint64)", _DROPOUT),
    Mutant("what is kept is not scaled", "model/layers.py",
           "scaled = at_least_float32(inputs) / keep_rate", "scaled = at_least_float32(inputs)", _DROPOUT),
    Mutant("packed examples see each other", "model/bert.py",
           "(mask[:, :, None] == mask[:, None, :]) & (mask > 0)[:, None, :]",
           "(mask[:, :, None] > 0) & (mask > 0)[:, None, :]",
           "tasks/classification/test_packed.py single_rows"),
    Mutant("a tie replaces the best weights", "evaluation/evaluator.py",
           "return sign * value > sign * self._best.value",
           "return sign * value >= sign * self._best.value",
           "end_to_end/evaluation/test_evaluating.py"),
    Mutant("patience is one evaluation longer", "evaluation/evaluator.py",
           "if since < self._patience:", "if since <= self._patience:",
           "end_to_end/evaluation/test_evaluating.py ending or stopping or ended"),
    Mutant("a stop by SIGTERM ends with 1", "core/errors.py",
           "exit_code = 75", "exit_code = 1", "test_readme.py exit_codes"),
    Mutant("a long message hides a lack of memory", "core/errors.py",
           "{message[-_SEARCHED:]}", "", "end_to_end/test_out_of_memory.py long_list"),
    Mutant("a container's memory is its machine's", "distributed/host.py",
           "found += [] if group is None else [group]", "found += []",
           "cli/test_doctor.py container"),
    Mutant("cached files count as used memory", "distributed/host.py",
           "limit - int(used[0]) + cached", "limit - int(used[0])",
           "cli/test_doctor.py cgroups"),
    Mutant("a sum depends on the towers' order", "distributed/pairwise.py",
           "total = held.read(digit) + total\n    return",
           "total = total - held.read(digit)\n    return", "training/test_towers.py"),
]
# fmt: on
