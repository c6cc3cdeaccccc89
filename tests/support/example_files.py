"""Files for examples/*.sh: the rows of the tiny workspace in other forms."""

import itertools
import json
import shutil

from tests.support.paths import EXAMPLES
from tests.support.tiny import rows

SMALL = ("--max_seq_length=16", "--num_train_epochs=1", "--xla=off", "--report=false")


def write(path, line, header, count, seed):
    lines = [header] if header else []
    lines += [line(*row) for row in rows(count, seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")


LABELS = ("bad", "good")
IDS = itertools.count()
# The files that examples/task_json/NAME.json names.
OWN = {
    "single": (lambda y, a, b: f"{LABELS[y]}\t{a}", None),
    "multi": (
        lambda y, a, b: json.dumps(
            {"text": a, "tags": ["any", "good"][: 1 + y], "id": b}
        ),
        None,
    ),
    "regression": (
        lambda y, a, b: f"{y - 0.5}\t{a}\t{b}",
        "score\tfirst\tsecond",
    ),
    "pairs": (
        lambda y, a, b: f'{LABELS[y]},7,"{a}","{b}"',
        "fits,number,question,answer",
    ),
    "tags": (
        lambda y, a, b: json.dumps(
            {"text": a, "entities": [[0, len(a.split()[0]), LABELS[y]]]}
        ),
        None,
    ),
    "qa": (
        lambda y, a, b: json.dumps(
            {"question": b, "context": a, "id": str(next(IDS))}
            | {"answers": [{"text": a.split()[0], "answer_start": 0}] * y}
        ),
        None,
    ),
    "rewrite": (
        lambda y, a, b: f"{a}\t{b}\t{f'it {a}' if y else a}",
        "source\tcontext\ttarget",
    ),
}


def own_data(tmp_path, name):
    data = tmp_path / "data"
    settings = json.loads((EXAMPLES / "task_json" / f"{name}.json").read_text())
    for seed, (split, count) in enumerate({"train": 32, "dev": 8, "test": 3}.items()):
        write(data / settings[split], *OWN[name], count, seed)
    shutil.copy(EXAMPLES / "task_json" / f"{name}.json", data / "task.json")
    return data
