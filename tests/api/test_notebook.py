"""A real notebook, in Jupyter's own kernel, whose TensorFlow is in use already."""

import pytest

from tests.api.test_training import flags
from tests.support.paths import ROOT


@pytest.mark.nightly
def test_train_load_train(tiny, tmp_path):
    """A list of predictions is a table, a training its report; nothing else shows."""
    import nbclient  # which `make parity` installs
    import nbformat

    first = flags(tiny, str(tmp_path / "out"), data_dir=str(tiny.data("own")),
                  init_checkpoint=str(tiny.model), report=True)  # fmt: skip
    cells = [
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import tensorflow as tf\nused = tf.constant(1)\nimport bert_mgpu",
        f"bert_mgpu.train(**{first!r})",
        f"model = bert_mgpu.load({str(tmp_path / 'out')!r})",
        "model.predict(['sun joy', '<b>rain</b>'])",
        f"more = dict({first!r}, num_train_epochs=2)\nbert_mgpu.train(**more)",
        "model.predict('sun joy').label in model.labels and int(used + 1)",
        "bert_mgpu.train(task_nam='own')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    client = nbclient.NotebookClient(notebook, timeout=280, allow_errors=True)
    client.execute(cwd=str(tmp_path))
    shown = [
        [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        for cell in notebook.cells
    ]
    outputs = [cell.outputs for cell in notebook.cells]
    for number in (1, 4):
        (page,) = shown[number]
        assert page.startswith('<iframe srcdoc="') and "eval_accuracy" in page
    assert outputs[2] == []
    (table,) = shown[3]
    assert "&lt;b&gt;rain&lt;/b&gt;" in table and table.count("<tr>") == 3
    assert outputs[5][0]["data"]["text/plain"] == "2"
    (error,) = outputs[6]
    assert error["ename"] == "UserError"
    assert "did you mean --task_name" in error["evalue"]
