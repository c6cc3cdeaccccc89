"""The names in an output_dir stand once, and folders that are links are refused."""

import ast
import re

import pytest

from bert_mgpu.core import run_files
from bert_mgpu.core.errors import UserError
from tests.support.paths import ROOT

# transformers' names, whatever those of a run are.
OTHERS = ("core/run_files.py", "checkpoints/huggingface_read.py")
FILES = {
    value
    for value in vars(run_files).values()
    if isinstance(value, str) and re.fullmatch(r"\w+\.(txt|tsv|jsonl?|html|log)", value)
}
FOLDERS = (run_files.CACHE, run_files.BEST, run_files.REPORT, run_files.PREDICTED)


def test_the_names_of_files_stand_once():
    places = []
    for path in (ROOT / "bert_mgpu").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in FILES:
                places.append(f"{path.relative_to(ROOT / 'bert_mgpu')}:{node.lineno}")
    assert [place for place in places if not place.startswith(OTHERS)] == []
    assert len(places) == len(FILES) + 1


def test_names_are_matched_whole():
    evaluation, checkpoint = map(
        run_files.pattern, ("eval_results_NAME.txt", "model.ckpt-STEP.*")
    )
    assert evaluation.fullmatch("eval_results_other.txt")
    assert not evaluation.fullmatch("eval_results.txt")
    assert checkpoint.fullmatch("model.ckpt-12.index")
    assert not checkpoint.fullmatch("model_ckpt-12.index")
    assert not checkpoint.fullmatch("model.ckpt-x.index")
    assert run_files.pattern("seed-N/").fullmatch("seed-7")


@pytest.mark.parametrize(
    "name", [*FOLDERS, run_files.SAVING, run_files.SEED.format(12)]
)
def test_no_folder_of_a_run_is_a_link(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "other").symlink_to("elsewhere")
    run_files.check_folders(tmp_path)
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(UserError, match=f"{name}: a link, and a run does not write"):
        run_files.check_folders(tmp_path)
    run_files.check_folders(tmp_path, unused=name)
