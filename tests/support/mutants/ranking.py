"""Faults of ranking: slots of ads, groups, their scores, rewrites.jsonl."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_RANKING, _SLOTS = "tasks/classification/ranking.py", "text/ad_slots.py"
_REWRITES, _GROUPS = (
    "tasks/classification/rewrites.py",
    "tasks/classification/groups.py",
)
_SCORES = "tasks/classification/test_ranking.py"
_PLACES = "text/test_ad_slots.py"
_RUNS, _FORMAT = "end_to_end/test_ranking.py", "tasks/test_predict_format.py"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("the worst row is the first", _RANKING,
           "np.lexsort((-scores, groups))", "np.lexsort((scores, groups))", _SCORES),
    Mutant("rows without a group are a group", _RANKING,
           "    order = order[groups[order] != _NONE]\n", "", _SCORES),
    Mutant("rounding decides the order", _RANKING,
           "prepend=np.inf) < -_ROUNDING)", "prepend=np.inf) < 0)",
           f"{_SCORES} rounding"),
    Mutant("ties reach into the next group", _RANKING,
           "falls = begins | (", "falls = (", _SCORES),
    Mutant("a right row is the best of its ties", _RANKING,
           "(ranking.ties <= best[ranking.groups])", "(ranking.ties < best[ranking.groups])",
           _SCORES),
    Mutant("right rows are in each other's way", _RANKING,
           "ahead = ~right & (", "ahead = (", _SCORES),
    Mutant("groups without wrong rows count", _RANKING,
           "np.logical_or.reduceat(\n        ~right, ranking.starts\n    )",
           "True", f"{_SCORES} left_out"),
    Mutant("ndcg takes its discounts from the next place", _RANKING,
           "(discounts[first + sizes] - discounts[first])",
           "(discounts[first + sizes] - discounts[first]) * 0.99", _SCORES),
    Mutant("ndcg has the first gain of its ties", _RANKING,
           "np.add.reduceat(right, ties, dtype=np.int64) / sizes",
           "right[ties] * 1.0", _SCORES),
    Mutant("the digits depend on the order of groups", _RANKING,
           "math.fsum(values[compared])", "sum(values[compared])", f"{_SCORES} order"),
    Mutant("any quote is a slot", _SLOTS,
           "return [segment for segment in segments(ad) if segment.is_slot]",
           "return [s for s in segments(ad) if SLOT_CHARACTER in s.text]", _PLACES),
    Mutant("slots of two lengths are two groups", _SLOTS,
           'return filled(ad or "", SLOT_CHARACTER)',
           "return ad if slots(ad or '') else None", _PLACES),
    Mutant("a slot is one mask", _SLOTS,
           "[tokenizer.mask_id] * len(slot.text)", "[tokenizer.mask_id]", _PLACES),
    Mutant("--ad_slot=mask masks nothing", _GROUPS,
           "config.ad_slot != MASKED:", "config.ad_slot == MASKED:",
           "tasks/classification/test_groups.py"),
    Mutant("old rows serve another --ad_slot", "tasks/classification/family.py",
           'settings["ad_slot"] = config.ad_slot', "pass",
           f"{_RUNS} may_be_masked"),
    Mutant("groups of one row each are taken", _GROUPS,
           "if 1 < len(own) == len({*own}):", "if False:", "tasks/classification/test_groups.py"),
    Mutant("groups of three labels are ranked", _GROUPS,
           "count != _LABELS:", "count < _LABELS:", f"{_RUNS} mistakes"),
    Mutant("a group is in both parts of --dev_share", "tasks/classification/family.py",
           "        if example.group is not None:\n            return [example.group]\n", "",
           f"{_RUNS} dev_share"),
    Mutant("a graph that masks no slots is written", _GROUPS,
           "if files.has_slots and config.export_saved_model:", "if False:",
           f"{_RUNS} graph"),
    Mutant("candidates that tie come in any order", _REWRITES,
           "for *_, row in sorted(keys)", "for *_, row in keys", _SCORES),
    Mutant("a line of rewrites.jsonl has the probability of another row", _REWRITES,
           '"probability": shares[row],', '"probability": shares[rows[0]],', _SCORES),
    Mutant("probabilities rise where rows tie", _REWRITES,
           "(-shares[row], tie, one", "(tie, one", _SCORES),
    Mutant("a stream waits for groups", "tasks/predict_format.py",
           "        columns = _ungrouped(columns)\n", "        pass\n", _FORMAT),
    Mutant("an object without its group is refused", "tasks/predict_format.py",
           'if key != "group" or name in record', "if True",
           f"{_FORMAT} group"),
    Mutant("the baseline ranks nothing", "tasks/classification/naive_bayes.py",
           "groups=ranking.groups_of(rows),", "groups=None,", f"{_RUNS} scores_may"),
]
# fmt: on
