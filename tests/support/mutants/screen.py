"""Faults of what a user reads: the log, and what it says of a model."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_LOG, _RECORDER = "core/test_log.py", "training/test_recorder.py"
_INTERVALS, _TRUST = "core/test_intervals.py", "tasks/classification/test_trust.py"
_LEARNING, _LEARNT = "evaluation/test_learning.py", "runs/test_learnt.py"
_PARTS = "training/test_rules.py parts"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("words are broken", "core/terminal.py",
           "if width(lines[-1]) + width(gap) + width(word) <= columns:", "if True:", _LOG),
    Mutant("every fact repeats its name", "core/log.py",
           "    elif name == _last.get():\n        name = \"\"\n", "", _LOG),
    Mutant("a file has colours", "core/terminal.py",
           "if plain or not stream.isatty():", "if plain:", _LOG),
    Mutant("NO_COLOR is not asked for", "core/terminal.py",
           'os.environ.get("NO_COLOR") or os.environ', "os.environ", _LOG),
    Mutant("tables are wrapped", "core/log.py",
           '[text] if "\\n" in text else _wrapped(text, indent)',
           "_wrapped(text, indent)", _LOG),
    Mutant("the time left is by the last steps", "training/recorder.py",
           "self._seconds += sum(step.seconds for step in steady)",
           "self._seconds = sum(step.seconds for step in steady)", _RECORDER),
    Mutant("an epoch is a step", "training/recorder.py",
           "epoch = done.step * self._batch / self._rows",
           "epoch = done.step / self._rows", _RECORDER),
    Mutant("what is half frozen is frozen", "training/rules.py",
           "if own and own <= frozen:", "if own & frozen:", _PARTS),
    Mutant("ranges of layers run on", "training/rules.py",
           "if runs and runs[-1][-1] == number - 1:", "if runs:", _PARTS),
    Mutant("truncation is told of each file", "tasks/data_checks.py",
           "yield (\n            f\"{', '.join(many)}: {range_of}",
           "yield from many\n        yield (\n            f\"{', '.join(many)}: {range_of}",
           "tasks/classification/test_data_checks.py truncation"),
    Mutant("an interval is half as wide", "core/intervals.py",
           "_Z = 1.959963984540054", "_Z = 0.98", _INTERVALS),
    Mutant("drawn rows are the rows", "core/intervals.py",
           "rng.integers(0, rows, rows)", "np.arange(rows)", _INTERVALS),
    Mutant("classes that do not occur have an F1", "tasks/classification/trust.py",
           "np.nan)", "0.0)", _TRUST),
    Mutant("one answer that is true is told", "tasks/classification/trust.py",
           " or said < _TOO_OFTEN * true", "", _TRUST),
    Mutant("a model as bad as one answer is fine", "evaluation/learning.py",
           "if sign * scores.value <= sign * floor:",
           "if sign * scores.value < sign * floor:", _LEARNING),
    Mutant("a loss that rises has fallen", "evaluation/learning.py",
           "sign = -1 if scores.lower_is_better else 1", "sign = 1", _LEARNING),
    Mutant("a loss that stays is fine", "evaluation/learning.py",
           "if last <= _FALLEN * first:", "if True:", _LEARNING),
    Mutant("labels without sense get advice on rates", "evaluation/learning.py",
           "            return\n        yield \"is --vocab", "        yield \"is --vocab",
           _LEARNING),
    Mutant("steps are as long as their rate", "training/schedule.py",
           "        / math.sqrt(1 - 0.999 ** (step + 1))\n", "",
           "training/test_schedule.py longest"),
    Mutant("long steps are not told of", "runs/learnt.py",
           "if longest is None or longest <= learning.LONG_STEP:", "if True:", _LEARNT),
]
# fmt: on
