"""Faults of vectors of texts."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_POOLING = "model/test_pooling.py"
_LINES = "cli/extract_features/test_lines.py"
_VECTORS = "cli/extract_features/test_vectors.py"
_STREAMS = "cli/extract_features/test_streams.py"
_MISTAKES = "cli/extract_features/test_mistakes.py"
_FILES, _ENCODE = "evaluation/test_feature_files.py", "api/test_encoder.py"
_DECIMALS = "evaluation/test_decimals.py"
_SERVED = "serving/test_embeddings.py"

# fmt: off
MUTANTS = [
    Mutant("padding counts in a mean", "model/pooling.py",
           "tf.reduce_sum(hidden * real, 1)", "tf.reduce_sum(hidden, 1)", _POOLING),
    Mutant("padding counts among the largest", "model/pooling.py",
           "tf.where(mask[..., None] > 0, hidden, hidden.dtype.min)", "hidden", _POOLING),
    Mutant("vectors of zeros become NaN", "model/pooling.py",
           "tf.maximum(norms, _SHORTEST)", "norms", _POOLING),
    Mutant("layers are counted with the embeddings", "tasks/feature_extraction.py",
           "positions=positions)[1:]", "positions=positions)", f"{_LINES} googles"),
    Mutant("a middle layer is read at [CLS] of the last", "tasks/feature_extraction.py",
           "positions = bert.first_tokens(batch) if first else None",
           "positions = bert.first_tokens(batch)", f"{_VECTORS} pooled_vectors"),
    Mutant("vectors are never scaled", "tasks/feature_extraction.py",
           "pooling.normalized(pooled) if self._normalize else pooled", "pooled",
           f"{_VECTORS} pooled_vectors"),
    Mutant("the first ||| separates a pair", "runs/extract_features.py",
           r'r"^(.*) \|\|\| (.*)$"', r'r"^(.*?) \|\|\| (.*)$"', f"{_LINES} googles"),
    Mutant("blanks around a line count", "runs/extract_features.py",
           "    line = line.strip()\n", "", f"{_LINES} googles"),
    Mutant("later blocks begin at line 0", "runs/extract_features.py",
           "lines += len(rows)", "lines += 0", f"{_LINES} blocks_change_nothing"),
    Mutant("a block may be of any size", "runs/extract_features.py",
           "for numbers in split(rows.lengths, most):",
           "for numbers in split(rows.lengths[:1], most):",
           f"{_LINES} blocks_change_nothing"),
    Mutant("large batches leave towers empty", "runs/extract_features.py",
           "max(_BLOCK, lines)", "_BLOCK", f"{_LINES} fill_all_towers"),
    Mutant("a model without a pooler gives random vectors", "runs/extract_features.py",
           "if value is not absent[n]", "if value is not None", f"{_VECTORS} without_a_pooler"),
    Mutant("a pooler reads any layer", "runs/extract_features.py",
           "if config.pooling == POOLER and not task.takes_last:", "if False:",
           _MISTAKES),
    Mutant("an empty file is written", "runs/extract_features.py",
           "if not lines and config.input_file != STANDARD_INPUT:", "if False:",
           _MISTAKES),
    Mutant("numbers are rounded in float32", "evaluation/decimals.py",
           "values.astype(np.float64)", "values", _DECIMALS),
    Mutant("digits behind zeros are lost", "evaluation/decimals.py",
           "first + _GROUP * (last == 0)", "first + _GROUP", _DECIMALS),
    Mutant("numbers near 0 have no exponent", "evaluation/decimals.py",
           "tiny = (size > 0) & (size < _TINY)", "tiny = size < 0", _DECIMALS),
    Mutant("SIGTERM is taken for a failure of XLA", "evaluation/forward.py",
           "except (Abandoned, RunError):", "except Abandoned:",
           f"{_STREAMS} sigterm"),
    Mutant("offsets of later blocks start at 0", "evaluation/feature_files.py",
           "total += len(block.token_ids.values)", "total += 0", _FILES),
    Mutant("a .npy file has no rows", "evaluation/feature_files.py",
           "self._rows += len(values)", "self._rows += 0", _FILES),
    Mutant("only small letters end a name", "evaluation/feature_files.py",
           "target.suffix.lower()", "target.suffix", _FILES),
    Mutant("JSON is called packed", "cli/extract_features.py",
           "if suffix in text_files.UNPACK:", "if False:", _MISTAKES),
    Mutant("a pipe is replaced by a file", "cli/flag_checks.py",
           "is_special = os.path.exists(path) and not os.path.isfile(path)",
           "is_special = False", _MISTAKES),
    Mutant("shared memory is taken for devices", "cli/flag_checks.py",
           "return os.stat(folder).st_dev == os.stat(_DEVICES).st_dev", "return True",
           f"{_MISTAKES} shared_memory"),
    Mutant("a link to the devices is followed", "cli/flag_checks.py",
           "pathlib.Path(os.path.realpath(folder))", "pathlib.Path(folder)",
           f"{_MISTAKES} among_the_devices"),
    Mutant("a stream waits for a block", "runs/arrivals.py",
           "received.get(block=not block)", "received.get()", "runs/test_arrivals.py"),
    Mutant("vectors of texts hold the weights again", "training/towers.py",
           "        other = copy.copy(self)\n",
           "        other = copy.copy(self)\n"
           "        other._replicas = copy.copy(self._replicas)\n",
           f"{_ENCODE} twice"),
    Mutant("the second block of texts is lost", "api/encoder.py",
           "while (block := [*itertools.islice(pairs, loading.BLOCK)]) or not parts:",
           "while not parts and (block := [*itertools.islice(pairs, loading.BLOCK)]):",
           f"{_ENCODE} blocks"),
    Mutant("rows that ask for other things are mixed up", "serving/app.py",
           "if row.ask == ask}", "}", _SERVED),
    Mutant("1 is true", "serving/embeddings.py",
           "type(value) is not type(known[0]) or ", "", _SERVED),
    Mutant("numbers have the digits of float64", "serving/embeddings.py",
           'float(f"{value:.9g}")', "float(value)", _SERVED),
    Mutant("null is refused", "serving/embeddings.py",
           "    if value is None:\n        return known[0]\n", "", _SERVED),
    Mutant("usage counts tokens that were cut off", "runs/vectors.py",
           "np.asarray(extractor.values(rows)), rows.lengths)",
           "np.asarray(extractor.values(rows)),"
           " np.array([len(a) for a, _ in pairs]))",
           "cli/test_serve.py those_of_python"),
    Mutant("any word normalises", "api/encoder.py",
           "if not isinstance(normalize, bool):", "if False:", _ENCODE),
    Mutant("any name of a model will do", "serving/embeddings.py",
           'if body.get("model", model.name) != model.name:', "if False:", _SERVED),
    Mutant("a request may have any number of texts", "serving/embeddings.py",
           "    bodies.check_rows(len(texts), limits)\n", "", _SERVED),
]
# fmt: on
