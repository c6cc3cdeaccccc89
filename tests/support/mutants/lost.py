"""Faults by which rows, texts or words are lost, or stand beside others."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("a tensor of the cache is read whole", "data/cache.py",
           "step = max(1, _PART // math.prod(shape[1:]))", "step = shape[0]",
           "data/test_cache.py large"),
    Mutant("a changed file to predict is refused", "tasks/dataset.py",
           '        self._hashes[split] = data["data"]\n',
           '        self._hashes.setdefault(split, data["data"])\n',
           "tasks/test_dataset.py can_be_predicted"),
    Mutant("other entities are the same label", "cli/doctor/near_rows.py",
           "if None not in labels and classes_of(one) != classes_of(other):", "if False:",
           "cli/test_repaired_files.py other_entities"),
    Mutant("a type of entities loses its rows", "cli/doctor/near_rows.py",
           'getattr(label, "types", ())', "()", "cli/test_repaired_files.py loses_all"),
    Mutant("texts of other rows stand beside predictions", "tasks/dataset.py",
           "if split in self._hashes:", "if False:", "tasks/test_dataset.py texts_are"),
    Mutant("a set is read again", "tasks/dataset.py",
           "if split in self._read:", "if False:", "tasks/test_dataset.py read_once"),
    Mutant("a folder that cannot be flushed ends a run", "checkpoints/train_state.py",
           "if not (path.is_dir() and error.errno in _CANNOT_FLUSH):", "if True:",
           "checkpoints/test_train_state.py cannot_be_flushed"),
    Mutant("records of another Python are refused", "tasks/masked_lm/dataset.py",
           "made != model.tokenizer.words_hash", "made != model.tokenizer.fingerprint",
           "tasks/masked_lm/test_dataset.py another_vocabulary"),
    Mutant("a folder of parts is removed with other files", "data_prep/prepare.py",
           "if path.name != lock.name and path.suffix not in _SUFFIXES:", "if False:",
           "data_prep/test_stops.py left_alone"),
    Mutant("an earlier vocabulary takes words away", "checkpoints/vocab_growth.py",
           "if lost := sorted({*renamed} & {*vocab_coverage.free_rows(new)}):",
           "if lost := []:", "checkpoints/test_vocab_growth.py loses_no"),
    Mutant("an evaluated model does not grow", "runs/resume.py",
           "specs, absent, config.init_checkpoint, say=weights_fact, model=model",
           "specs, absent, config.init_checkpoint, say=weights_fact",
           "checkpoints/test_vocab_growth.py only_used"),
    Mutant("a CoNLL line may be wider than the first", "data/conll.py",
           "if width is not None and len(row) != width:", "if False:",
           "data/test_conll.py every_line"),
]
