"""The names of a run's files and folders in its output_dir."""

from __future__ import annotations

import os
import pathlib
import re

from bert_mgpu.core.errors import UserError

RUN, CONFIG = "run.json", "bert_config.json"
LABELS, VOCAB = "label_list.txt", "vocab.txt"
MODEL = (RUN, CONFIG, LABELS, VOCAB)  # the files beside the weights of a model
CHECKPOINT = "model.ckpt"  # followed by -STEP
PREDICTIONS, VALUES, RECORDS = "predict.txt", "test_results.tsv", "predictions.jsonl"
ANSWERS, N_BEST = "predictions.json", "nbest_predictions.json"
NULL_ODDS, REWRITES = "null_odds.json", "rewrites.jsonl"
SENTENCES, TAGGED = "test_results.json", "label_test.txt"
BESIDE_PREDICTIONS = (ANSWERS, N_BEST, NULL_ODDS, REWRITES, TAGGED)  # some tasks only
EVALUATIONS, BASELINE, SEEDS = "evaluations.jsonl", "baseline.json", "seeds.json"
BEST_EVALUATION = "best.json"
METRICS, REPORT_PAGE = "metrics.jsonl", "report.html"
ERRORS, ROLLBACKS = "errors.jsonl", "rollbacks.json"
TENSORFLOW_LOG, EXIT, MLFLOW = "tensorflow.log", "exit.json", "mlflow.json"
CACHE, BEST, REPORT, PREDICTED = "cache", "best", "report", "predicted"
SEED = "seed-{}"
SAVING = ".saving"  # a checkpoint that is being written

# What each file holds, in the order in which people look for it; folders end with /.
# STEP, NAME and N stand for what varies, * for the rest of a name. docs/output_dir.md
# shows this table.
CONTENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (PREDICTIONS,),
        "one line per example, in input order: the class index; of type multi several"
        " indices with commas, regression the number, tags the tags of its words or"
        " `start:end:TYPE` of its entities, qa the answer, rewrite the text",
    ),
    (
        (VALUES,),
        "the probabilities of all classes, tab-separated, without a header; of type"
        " regression the number, tags the probability of the tag of each word (or piece"
        " of a text), qa start, end and probability, rewrite the scores of its"
        " candidates",
    ),
    (
        (RECORDS,),
        "of each example the id, line number in the file, label name and probabilities;"
        " of type tags its entities, qa the answer with its place, rewrite the text"
        " with its score, edits and candidates",
    ),
    (
        (REWRITES,),
        "of task `ad` and tasks with a `group` column: a line for each slot or group,"
        " with its rows from the most to the least probable",
    ),
    (
        (TAGGED,),
        "of type tags: a line for each word, or piece of a text: the word, its true tag"
        " where the file has tags for all, and the predicted tag; blank lines between"
        " examples",
    ),
    (
        (ANSWERS, N_BEST, NULL_ODDS),
        "of type qa the files of run_squad.py: the answer of each id, its n-best list,"
        " and with `--version_2_with_negative` the score of no answer minus that of the"
        " best answer",
    ),
    (
        ("eval_results.txt",),
        "scores as `key = value`: `eval_accuracy`, `eval_loss`, `global_step`, `loss`,"
        " then macro, micro and weighted F1, macro precision and recall, `mcc`; for two"
        " classes also `precision`, `recall`, `f1` and `auc` of the second label; of"
        " rows in groups `mrr`, `hit_at_1`, `hit_at_3` and `ndcg`; of type regression"
        " `mae`, `pearson` and `spearman`, tags the scores of entities, qa those of"
        " SQuAD's and CMRC's scripts, rewrite SARI, BLEU and others",
    ),
    (("eval_results_NAME.txt",), "the same scores for a file of `--eval_files`"),
    (
        (f"{PREDICTED}/",),
        "with several files in `--predict_file`: a folder for each, with its prediction"
        " files",
    ),
    (
        (REPORT_PAGE, f"{REPORT}/"),
        "a verdict, curves, scores by label, worst errors; its pictures as PNG files",
    ),
    (
        (ERRORS,),
        "each example of an evaluated set that is wrong, the worst first: its texts,"
        " the truth, and the prediction as in predictions.jsonl (of more than 50 labels"
        " only the probabilities of the true, the predicted and the ten most probable"
        " ones); of type regression the worst tenth, at least 20",
    ),
    (
        (EVALUATIONS, BASELINE),
        "the scores of each set every `--eval_steps` steps; if the training evaluates,"
        " those of naive Bayes or another baseline",
    ),
    (
        (f"{BEST}/",),
        f"the weights of the best evaluation, ready to use or to start from;"
        f" `{BEST_EVALUATION}` says which evaluation that was",
    ),
    (
        (f"{SEED.format('N')}/", SEEDS),
        "with `--seeds`: the run of each seed; mean and deviation of the scores",
    ),
    (
        (SENTENCES,),
        "pretraining with `--do_predict`: the probability of each token and the"
        " pseudo-perplexity of each line",
    ),
    (
        (f"{CHECKPOINT}-STEP.*", "checkpoint"),
        "weights, optimizer moments and `global_step`, by default all under Google's"
        " TF1 names; also averaged weights and the loss scale where the run has them",
    ),
    ((LABELS, CONFIG, VOCAB), "what the model needs beside its weights"),
    (
        (RUN,),
        "flags, task, identity and versions of the run; when, where, on what and how"
        " long it trained",
    ),
    (
        (METRICS, "events.out.tfevents.*"),
        "epoch, time, loss, learning rate, gradient norm, speed, time spent waiting for"
        " input (and float16's loss scale) every `--log_steps` steps; the second is for"
        " TensorBoard (`tensorboard --logdir=OUTPUT_DIR`) and also has every score of"
        " every evaluation of a training: every `--eval_steps` steps, and by"
        " `--do_eval` at its end",
    ),
    (
        (ROLLBACKS,),
        "with `--on_divergence=rollback`: each step with a number that was not finite,"
        " where the first one stood, and the step to which the training went back",
    ),
    (
        (MLFLOW,),
        "with `--mlflow`: the run in MLflow, which a resume continues, and the steps"
        " that are logged there",
    ),
    (
        (f"{CACHE}/",),
        "tokenized examples; safe to delete. Of what earlier runs left here for files"
        " that were only predicted, the newest eight are kept",
    ),
    ((TENSORFLOW_LOG,), "TensorFlow's own messages of the latest run"),
    (
        (EXIT,),
        "of a run of several processes that ended early: `code`, `rank`, `step` and"
        " `reason` of the process that ended first",
    ),
    (
        (".lock",),
        "locked while a run uses the folder; the file stays behind and can be ignored",
    ),
)


def pattern(name: str) -> re.Pattern[str]:
    """The regular expression of a name in CONTENTS, without the / of a folder."""
    parts = re.split("(STEP|NAME|N|[*])", name.removesuffix("/"))
    numbers = {"STEP": "[0-9]+", "N": "[0-9]+", "NAME": ".+", "*": ".+"}
    return re.compile("".join(numbers.get(part, re.escape(part)) for part in parts))


_NAMES = [pattern(name) for names, _ in CONTENTS for name in names]
# The folders that a run writes to.
_FOLDERS = [pattern(n) for names, _ in CONTENTS for n in names if n.endswith("/")]
_FOLDERS += [pattern(SAVING)]


def check_input(output_dir: pathlib.Path, path: pathlib.Path) -> None:
    """Raises UserError if a file to read has a name that runs write in output_dir."""
    inside = os.path.relpath(os.path.realpath(path), os.path.realpath(output_dir))
    first = pathlib.PurePath(inside).parts[0]
    if any(name.fullmatch(first) for name in _NAMES):
        raise UserError(
            f"{path}: a run writes to {first} in its --output_dir, and may replace it:"
            " copy the file elsewhere, or pass another --output_dir"
        )


def check_folders(output_dir: pathlib.Path, unused: str | None = None) -> None:
    """Raises UserError where a run would write outside of its output_dir.

    A file replaces a link of its name, but a folder that is a link would lead the files
    in it elsewhere. unused: the name of a folder to which this run does not write.
    """
    for path in sorted(output_dir.iterdir()) if output_dir.is_dir() else ():
        is_ours = any(folder.fullmatch(path.name) for folder in _FOLDERS)
        if not is_ours or path.name == unused:
            continue
        if not path.is_dir() and not path.is_symlink():
            raise UserError(f"{path}: not a folder: remove it")
        links = [path] if path.is_symlink() else []
        for folder, names, _ in os.walk(path) if not links else ():
            links += [p for n in names if (p := pathlib.Path(folder, n)).is_symlink()]
        if links:
            raise UserError(
                f"{links[0]}: a link, and a run does not write through it: remove it,"
                " or pass another --output_dir (or --cache_dir, for the cache)"
            )
