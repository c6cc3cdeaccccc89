"""Faults of what runs keep in folders, and find in them."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_STATE, _LEFT = "checkpoints/test_train_state.py", "runs/test_leftovers.py"
_SWEPT = "core/test_sweeping.py"
_FILES, _SCRIPT = "core/test_files.py", "cli/test_script.py"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("what killed runs left stays", "core/sweeping.py",
           "if is_old and _TEMPORARY.fullmatch(path.name):", "if False:", _SWEPT),
    Mutant("files that are being written are removed", "core/sweeping.py",
           "if is_old and _TEMPORARY.fullmatch(path.name):",
           "if _TEMPORARY.fullmatch(path.name):", _SWEPT),
    Mutant("other hidden files are removed", "core/sweeping.py",
           "if is_old and _TEMPORARY.fullmatch(path.name):",
           'if is_old and path.name[0] == ".":', _SWEPT),
    Mutant("a user's --cache_dir is cleared", "cli/session.py",
           "own_cache=unused is None", "own_cache=True", "cli/test_session.py"),
    Mutant("the oldest predicted rows stay", "core/sweeping.py",
           "sorted(found, reverse=True)", "sorted(found)", _SWEPT),
    Mutant("rows to train on are cleared", "tasks/dataset.py",
           'run_files.PREDICTED if split in self.predicted else ""', "run_files.PREDICTED",
           "tasks/test_dataset.py only_predicted"),
    Mutant("a checkpoint that cannot be read is given up", "checkpoints/train_state.py",
           "        except Unreadable:\n            raise\n", "", f"{_STATE} given_up"),
    Mutant("a value that cannot be read is damaged", "checkpoints/google_read.py",
           "if fault == _DAMAGED and _is_unreadable(error, reason):", "if False:",
           f"{_STATE} given_up"),
    Mutant("an index that cannot be found out is absent", "checkpoints/google_read.py",
           "        if error.errno in _UNREADABLE:\n            raise Unreadable(path, error",
           "        if False:\n            raise Unreadable(path, error", f"{_STATE} given_up"),
    Mutant("a folder that cannot be listed is empty", "checkpoints/train_state.py",
           "    except (FileNotFoundError, NotADirectoryError):\n        return []",
           "    except OSError:\n        return []", f"{_STATE} listed"),
    Mutant("best weights of a training that ended are removed", "runs/leftovers.py",
           'training is not None and "ended" not in training', "True", _LEFT),
    Mutant("best weights that a flag names are removed", "runs/leftovers.py",
           " and not _is_used(best, run):", ":", _LEFT),
    Mutant("best weights of the same training are removed", "runs/leftovers.py",
           "    if earlier is None or identity_lib.fingerprint(config, earlier) == own:\n",
           "    if earlier is None:\n", _LEFT),
    Mutant("evaluations of a training that saved nothing stay", "runs/leftovers.py",
           "    (output_dir / run_files.EVALUATIONS).unlink(missing_ok=True)\n", "", _LEFT),
    Mutant("a resume takes another sample", "runs/identity.py",
           '        new = {_SAMPLED_BY: new["seed"]} | new\n', "        pass\n",
           "runs/test_identity.py sample"),
    Mutant("two runs work on one seed", "runs/seeds.py",
           "        with _locked(folder, topology):\n", "        with contextlib.nullcontext():\n",
           "runs/test_seeds.py"),
    Mutant("a run that MLflow has no more is gone on with", "runs/mlflow_log.py",
           "if run_id and mlflow_state.is_there(client, run_id):", "if run_id:",
           "runs/test_mlflow_log.py deleted"),
    Mutant("containers write into each other's files", "core/files.py",
           "{os.getpid()}-{secrets.token_hex(4)}.tmp", "{os.getpid()}.tmp", f"{_FILES} two"),
    Mutant("an export takes the place of a mount point", "core/files.py",
           "    if os.path.ismount(target):", "    if False:", f"{_FILES} mount"),
    Mutant("a cache is its owner's alone", "data/cache.py",
           "            temporary.chmod(mode)\n", "", "data/test_cache.py others"),
    Mutant("a full disk under the log ends a training", "cli/script.py",
           "        except OSError:\n            if self._stream.closed:",
           "        except BrokenPipeError:\n            if self._stream.closed:", _SCRIPT),
    Mutant("an exchange has more bytes than Horovod counts", "distributed/collective.py",
           "max(1, _MAX_BYTES // self.size)", "max(1, _MAX_BYTES)",
           "distributed/test_gathered_rows.py"),
    Mutant("a table of many columns is too wide", "core/terminal.py",
           "if name_width < min(least, longest) and len(widths) > 1:", "if False:",
           "core/test_terminal.py many_columns"),
]
# fmt: on
