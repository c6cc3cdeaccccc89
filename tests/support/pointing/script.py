"""run_classifier_mgpu.py with the toy families in the table: a script for processes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

from bert_mgpu.cli import run_classifier
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.task_json import TaskType

MODULES = {
    "pointing": "family",
    "pointing_tokens": "tokens",
    "pointing_twice": "twice",
}
TYPES = {
    name: TaskType(f"tests.support.pointing.{module}", names_labels=False)
    for name, module in MODULES.items()
}

if __name__ == "__main__":
    registry.TYPES.update(TYPES)
    sys.exit(run_classifier.main())
