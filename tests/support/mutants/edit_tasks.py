"""Faults of texts that are rewritten: rows, tags, drafts, what is written, decoding."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_ROWS, _TAGS = "tasks/rewriting/test_rows.py", "tasks/rewriting/test_tags.py"
_DRAFTS, _DATA = "tasks/rewriting/test_drafts.py", "tasks/rewriting/test_dataset.py"
_FILLING = "tasks/rewriting/test_filling.py"
_TRAINING = "tasks/rewriting/test_training_rows.py"
_CHECKS = "tasks/rewriting/test_pair_checks.py"
_DECODING = "tasks/rewriting/test_decoding.py"
_CURVE = "tasks/rewriting/test_bias_curve.py"
_PREDICTED = "tasks/rewriting/test_predictions.py"
_REWRITTEN = "tasks/rewriting/test_rewritten.py"
_FILES, _FAMILY = "tasks/rewriting/test_files.py", "tasks/rewriting/test_family.py"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("deleted tokens come out", "tasks/rewriting/rows.py",
           "segments.append(int(keeps[number]))", "segments.append(1)", _ROWS),
    Mutant("a context loses its end", "tasks/rewriting/rows.py",
           "context[max(0, len(context) - left) :]", "context[:left]", _ROWS),
    Mutant("what is written before a token needs no room", "tasks/rewriting/rows.py",
           "if len(ids) + count + (not is_end) > room:",
           "if len(ids) + (not is_end) > room:", _ROWS),
    Mutant("two edits have one tag", "tasks/rewriting/tags.py",
           "(0 if kept else max_insert + 1)", "(0 if kept else max_insert)", _TAGS),
    Mutant("nothing may be written in a slot", "tasks/rewriting/tags.py",
           "_found(target, part, place + 1, at_end=last)",
           "_found(target, part, place, at_end=last)", _TAGS),
    Mutant("the last slot ends before the target does", "tasks/rewriting/tags.py",
           "last = number == len(slots) - 1", "last = False", _TAGS),
    Mutant("a draft differs in a place that does not", "tasks/rewriting/drafts.py",
           "    costs[rows, first] = np.inf\n", "", _DRAFTS),
    Mutant("too few changes make the best drafts", "tasks/rewriting/drafts.py",
           "[: most - 1].tolist()", "[: most - 2].tolist()", _DRAFTS),
    Mutant("the end of a text is deleted", "tasks/rewriting/drafts.py",
           "        own[size, max_insert + 1 :] = _NEVER\n", "        pass\n", _DRAFTS),
    Mutant("a slot may stay empty", "tasks/rewriting/drafts.py",
           "only[slots, 1 : max_insert + 1] = found[slots, 1 : max_insert + 1]",
           "only[slots, : max_insert + 1] = found[slots, : max_insert + 1]", _DRAFTS),
    Mutant("a higher bias changes more", "tasks/rewriting/drafts.py",
           "found[:, 0] += keep_bias", "found[:, 0] -= keep_bias", _DRAFTS),
    Mutant("a piece stands alone", "tasks/rewriting/filling.py",
           "choice = 0 if follows else 1", "choice = 0", f"{_FILLING} plain_loop"),
    Mutant("the most certain words are written anew", "tasks/rewriting/filling.py",
           'kind="stable")[:count]', 'kind="stable")[-count:]', f"{_FILLING} plain_loop"),
    Mutant("pieces stay without their word", "tasks/rewriting/filling.py",
           "                chosen.add(place)\n", "                pass\n",
           f"{_FILLING} plain_loop"),
    Mutant("long fills are less likely", "tasks/rewriting/filling.py",
           "return (sums / sizes).tolist()", "return sums.tolist()", f"{_FILLING} all_else"),
    Mutant("what has no room is written", "tasks/rewriting/filling.py",
           "        if fits > len(text.source):\n", "        if fits:\n", f"{_FILLING} no_room"),
    Mutant("[UNK] is written", "tasks/rewriting/task.py",
           '_HIDDEN * banned.astype("f")', '0.0 * banned.astype("f")',
           f"{_FILLING} plain_loop"),
    Mutant("all rows have the same masks", "tasks/rewriting/training_rows.py",
           "counter=[0, 0, 0, number]", "counter=[0, 0, 0, 0]", _TRAINING),
    Mutant("all that is written is masked", "tasks/rewriting/training_rows.py",
           "draws.integers(1, count + 1, 1)", "draws.integers(count, count + 1, 1)",
           _TRAINING),
    Mutant("what is shown is masked", "tasks/rewriting/training_rows.py",
           "        values[shown] = ids.values[~kept]\n", "", _TRAINING),
    Mutant("[UNK] is learnt", "tasks/rewriting/dataset.py",
           "if ids[position] != special.unk:", "if True:", _DATA),
    Mutant("tags outside of slots are learnt", "tasks/rewriting/dataset.py",
           "for token in slots or range(len(own)):", "for token in range(len(own)):", _DATA),
    Mutant("all that is written stands in the input", "tasks/rewriting/dataset.py",
           'notes["in_row"] += target.in_row', 'notes["in_row"] += len(edits.written)', _DATA),
    Mutant("as many tokens as there may be are too many", "tasks/rewriting/dataset.py",
           "if max(edits.counts) > most:", "if max(edits.counts) >= most:", _DATA),
    Mutant("a few more pairs may be equal", "tasks/rewriting/pair_checks.py",
           "= 0.95, 0.1, 0.2", "= 0.96, 0.1, 0.2", _CHECKS),
    Mutant("a few more tokens have to be common", "tasks/rewriting/pair_checks.py",
           "= 0.95, 0.1, 0.2", "= 0.95, 0.11, 0.2", _CHECKS),
    Mutant("the worst rewriting is the first", "tasks/rewriting/decoding.py",
           "return -rewriting.score, size", "return rewriting.score, size", _DECODING),
    Mutant("of equal rewritings the longer is the first", "tasks/rewriting/decoding.py",
           "size = sum(rewriting.keeps) +", "size = -sum(rewriting.keeps) -",
           f"{_DECODING} shorter"),
    Mutant("a draft alone is scored", "tasks/rewriting/decoding.py",
           "if counts[own] > 1]", "if counts[own] > 0]", _DECODING),
    Mutant("the end of a text that is cut is decided", "tasks/rewriting/decoding.py",
           "len(source) + int(whole.row(row)[0])", "len(source) + 1", f"{_DECODING} hold"),
    Mutant("the bias curve runs backwards", "tasks/rewriting/bias_curve.py",
           "others > scores[:, 0] + bias", "others > scores[:, 0] - bias", _CURVE),
    Mutant("any change of a place is right", "tasks/rewriting/bias_curve.py",
           "changed & (best == truth)", "changed & (truth > 0)", _CURVE),
    Mutant("a text takes two lines of predict.txt", "tasks/rewriting/predictions.py",
           "on_one_line(text)[0]", "text", _PREDICTED),
    Mutant("of equal texts the worst counts", "tasks/rewriting/rewritten.py",
           "found.setdefault(own.text, own)", "found[own.text] = own", _REWRITTEN),
    Mutant("a loss of words is none of the set", "tasks/rewriting/task.py",
           '"eval_loss": sum(losses)', '"eval_loss": losses[0]', _REWRITTEN),
    Mutant("a target may have slots", "tasks/rewriting/family.py",
           "if marker in target:", "if False:", _FAMILY),
    Mutant("rows of another --max_insert are used", "tasks/rewriting/family.py",
           'return {"max_insert": config.max_insert}', "return {}", _FAMILY),
    Mutant("flags of other types are passed over", "tasks/registry.py",
           "if name in config.given:", "if False:", _FAMILY),
    Mutant("a context may be the target", "tasks/rewriting/files.py",
           '(own.get("text_a"), own.get("text_b"))', '(own.get("text_a"),)', _FILES),
    Mutant("rewritings to predict are the default ones", "config/rewriting.py",
           "fill_rounds: int = 4", "fill_rounds: int = 1", _FAMILY),
]
# fmt: on
