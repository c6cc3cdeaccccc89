"""Faults of runs, evaluation, export and checkpoints."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_FIRST = "checkpoints/initial_weights.py"
_FIRST_TEST = "checkpoints/test_initial_weights.py"
_GROWTH = "checkpoints/vocab_growth.py"
_GROWTH_TEST = "checkpoints/test_vocab_growth.py"
_PRETRAINED = "checkpoints/pretrained.py"
_PRETRAINED_TEST = "checkpoints/test_pretrained.py"
_EVALUATOR = "evaluation/evaluator.py"
_EVALUATOR_TEST = "evaluation/test_evaluator.py"
_RESULTS = "evaluation/result_files.py"
_RESULTS_TEST = "evaluation/test_result_files.py"
_RESUME = "runs/resume.py"
_RESUME_TEST = "runs/test_resume.py"
_SERVED = "export/saved_model.py"
_SERVED_TEST = "export/test_saved_model.py"

# fmt: off
MUTANTS: list[Mutant] = [
    # checkpoints
    Mutant("the averages of a run are not loaded", _FIRST,
           "{n: a if a in stored else n for n, a in averages.items()}",
           "{n: n for n, a in averages.items()}", _FIRST_TEST),
    Mutant("a checkpoint with NaN is loaded", _FIRST,
           "if not np.isfinite(value).all():", "if False:", _FIRST_TEST),
    Mutant("an encoder may lack a weight", _FIRST,
           "        raise UserError(\n            f\"{path}: lacks {len(absent)}",
           "        UserError(\n            f\"{path}: lacks {len(absent)}", _FIRST_TEST),
    Mutant("a head of other labels is loaded", _FIRST,
           "model.labels != list(labels)", "set(model.labels) != set(labels)", _FIRST_TEST),
    Mutant("a new token starts from its first piece", _GROWTH,
           "table[row] = old[pieces].mean(axis=0)", "table[row] = old[pieces[0]]", _GROWTH_TEST),
    Mutant("rows of no token repeat those of the first ones", _GROWTH,
           "first[name][len(table) :]", "first[name][: len(first[name]) - len(table)]",
           _GROWTH_TEST),
    Mutant("another vocabulary counts as a grown one", _GROWTH,
           "if len(renamed) > _MOST_RENAMED * common:", "if len(renamed) > common:",
           _GROWTH_TEST),
    Mutant("--init_checkpoint goes before the run's own model", _PRETRAINED,
           "settings |= _left_by_run(saved_run)",
           "settings = _left_by_run(saved_run) | settings", _PRETRAINED_TEST),
    Mutant("Google's cased models are read as uncased", "checkpoints/casing.py",
           "lower = match[1] not in _CASED", "lower = True", _PRETRAINED_TEST),
    Mutant("a model is read with other settings than it was trained with", _PRETRAINED,
           "and trained[name] != getattr(config, name)",
           "and not hasattr(config, name)", _PRETRAINED_TEST),
    Mutant("a kernel of transformers is not transposed", "checkpoints/huggingface_read.py",
           "value = value.T if row and row.transposed else value", "value = value",
           "checkpoints/test_huggingface_read.py orientation"),
    Mutant("ten labels are sorted as texts", "checkpoints/huggingface_read.py",
           "sorted(labels, key=int)", "sorted(labels)", "checkpoints/test_huggingface_read.py"),
    Mutant("an export has the other gelu", "checkpoints/huggingface_write.py",
           '"gelu_tanh": "gelu_new"', '"gelu_tanh": "gelu"',
           "checkpoints/test_huggingface_write.py"),
    Mutant("the oldest checkpoints are kept", "checkpoints/train_state.py",
           "steps[-keep:]", "steps[:keep]", "checkpoints/test_train_state.py keeps"),
    Mutant("a run goes on from its oldest checkpoint", "checkpoints/train_state.py",
           "for step in reversed(steps):", "for step in steps:",
           "checkpoints/test_train_state.py gives_way or went_back"),
    Mutant("a damaged index is read", "checkpoints/tensor_bundle.py",
           "if masked != crc:", "if False:", "robustness/test_checkpoints.py every_bit_of_the_end"),
    # evaluation
    Mutant("outputs that are no numbers are predictions", "evaluation/forward.py",
           "finite = np.isfinite(values.reshape(len(values), -1)).all(-1)",
           "finite = np.isfinite(values.reshape(len(values), -1)).any(-1) | True",
           "evaluation/test_forward.py"),
    Mutant("a GPU's 64 rows overrule the flag", "runs/run.py",
           "and not flags & config.given:", "and True:", "runs/test_run.py"),
    Mutant("a loss is better when it is higher", _EVALUATOR,
           "sign = -1 if metric in self._task.lower_is_better else 1", "sign = 1",
           _EVALUATOR_TEST),
    Mutant("the best of another run is a bar", _EVALUATOR,
           'comparable = facts["of"] == self._fingerprint', "comparable = True",
           _EVALUATOR_TEST),
    Mutant("a stopped evaluation is never done", _EVALUATOR,
           "return step > 0 and due and step not in self._evaluated", "return False",
           _EVALUATOR_TEST),
    Mutant("the deviation is that of all seeds there are", _RESULTS,
           "statistics.stdev(", "statistics.pstdev(", _RESULTS_TEST),
    Mutant("a lost prediction shifts the lines", _RESULTS,
           "if {*entries} != {len(lines)}:", "if False:", _RESULTS_TEST),
    Mutant("a row is named by its line, from 1", _RESULTS,
           'f"test-{line - 1}"', 'f"test-{line}"', _RESULTS_TEST),
    Mutant("a text may bring HTML into the report", "evaluation/html.py",
           "text = html.escape(str(value))", "text = str(value)", "evaluation/test_html.py"),
    # export
    Mutant("an exported model cuts a pair elsewhere", _SERVED,
           "tf.maximum((budget + 1) // 2, budget - size_b)",
           "tf.maximum(budget // 2, budget - size_b)", _SERVED_TEST),
    Mutant("an exported model keeps the head of a long text", _SERVED,
           "tail = tf.where(single & ~fits, budget - head, 0)",
           "tail = tf.where(single & ~fits, 0 * head, 0)", _SERVED_TEST),
    Mutant("the last [SEP] of a pair is of the first text", _SERVED,
           "tf.cast(positions >= first, tf.int32)\n",
           "tf.cast((positions >= first) & (positions < lengths - 1), tf.int32)\n", _SERVED_TEST),
    Mutant("a difference of NaN is none", "export/convert.py",
           "float(np.maximum(differences[name], gap))", "float(max(differences[name], gap))",
           "export/test_convert.py no_numbers_end_it"),
    Mutant("a served word of 200 characters is unknown", "export/graph_tokenizer.py",
           "whole = lengths <= MAX_WORD", "whole = lengths < MAX_WORD",
           "export/test_graph_tokenizer.py hard"),
    # runs
    Mutant("a resume forgets the moments", _RESUME,
           "{name: state.slots.get(name, value) for name, value in first.items()}",
           "first", _RESUME_TEST),
    Mutant("a random head predicts", _RESUME,
           "if np.isnan(value).all():", "if False:", _RESUME_TEST),
    Mutant("a new head has no warning", _RESUME,
           "if params[name] is random[name]:", "if False:", _RESUME_TEST),
    Mutant("run.json names the start of a later command", _RESUME,
           'settings["init_checkpoint"] = _began_from(output_dir)', "pass", _RESUME_TEST),
    Mutant("a resume does not compare the data", "runs/identity.py",
           "    } | data\n", "    }\n", "runs/test_identity.py"),
    Mutant("a row of a stream is lost", "data/forward_batching.py",
           "for start in range(0, len(lengths), towers * rows_per_tower):",
           "for start in range(0, len(lengths) - 1, towers * rows_per_tower):",
           "data/test_forward_batching.py"),
    Mutant("a stream traces every number of targets", "data/forward_batching.py",
           "targets = _power_of_two(target_counts[batch].max())",
           "targets = int(target_counts[batch].max())", "data/test_forward_batching.py"),
    Mutant("a stream waits for batches of files", "runs/predict_stream.py",
           "replace(settings, streams=True)", "replace(settings, streams=False)",
           "end_to_end/test_streaming.py few_shapes"),
    Mutant("a stream tries a batch again that did not fit", "evaluation/forward.py",
           "towers.max_rows = batch_size // 2", "towers.max_rows = batch_size - 1",
           "end_to_end/test_streaming.py halved"),
    Mutant("evaluation reads the weights before the last step", "training/towers.py",
           "self._refreshed = (self._device_sums, inputs), False",
           "_ = (self._device_sums, inputs), False", "training/test_default_strategy.py follow"),
    Mutant("parts of a batch do not multiply", "runs/train.py",
           "parts * launcher.batch_parts(),", "parts,", "runs/test_train.py"),
    Mutant("an unused parameter is worn down", "runs/run.py",
           "frozen = self.task.unused_params | set(asked)", "frozen = set(asked)",
           "runs/test_run.py"),
]
# fmt: on
