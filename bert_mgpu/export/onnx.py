"""Export to ONNX, for onnxruntime and others: a model that takes token ids.

tf2onnx (https://github.com/onnx/tensorflow-onnx) converts it. The tokenizer is not part
of the model: ONNX has no operations for it.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core import extras, files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Features, Outputs
from bert_mgpu.core.run_files import VOCAB
from bert_mgpu.export.saved_model import (
    FACTS,
    IDS_INPUTS,
    Served,
    difference_of_ids,
)

_MODEL = "model.onnx"
_NEEDED = ("tf2onnx", "onnx", "onnxruntime")
_OPSET = 18  # of 2023: onnxruntime 1.14 and later
_MOST_BYTES = 2**31 - 2**24  # of a protocol buffer, less some for the graph


def check(target: str) -> None:
    """Raises UserError where a package is missing or the folder cannot be written."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"--export_onnx needs {', '.join(missing)}: {extras.advice('onnx')}"
        )
    files.check_replaceable(pathlib.Path(target), is_export)


def is_export(folder: pathlib.Path, names: set[str]) -> bool:
    """Whether `folder`, whose files are `names`, was written by `write`."""
    return FACTS in names and names <= {_MODEL, VOCAB, FACTS}


def write(target: str, served: Served, vocab_file: str) -> None:
    """Writes the folder completely or not at all, replacing only an earlier export.

    model.onnx takes input_ids, input_mask, segment_ids int32 [rows, tokens], with any
    number of rows and tokens; its outputs are those of the SavedModel, of a tagger only
    the logits. Raises UserError where the folder cannot be written, or the model is too
    large for a file of this format.
    """
    import onnx

    if served.bytes > _MOST_BYTES:
        raise UserError(
            f"--export_onnx: {served.bytes / 2**30:.1f} GiB of weights, but an ONNX"
            " file holds at most 2: pass --export_saved_model"
        )
    model = _converted(served)
    for value in (*model.graph.input, *model.graph.output):
        shape = zip(value.type.tensor_type.shape.dim, ("rows", "tokens"), strict=False)
        for dimension, name in shape:
            if not dimension.dim_value:
                dimension.ClearField("dim_value")
                dimension.dim_param = name
    facts = json.dumps(served.facts, indent=2, ensure_ascii=False)
    onnx.checker.check_model(model)
    try:
        with files.replacing_folder(pathlib.Path(target).absolute()) as new:
            (new / _MODEL).write_bytes(model.SerializeToString())
            (new / VOCAB).write_bytes(pathlib.Path(vocab_file).read_bytes())
            (new / FACTS).write_text(facts + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: cannot export: {error.strerror}") from None


def _converted(served: Served) -> Any:
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    ids = [tf.TensorSpec([None, None], tf.int32, name) for name in IDS_INPUTS]
    call = tf.function(served.outputs_for_ids, input_signature=ids, autograph=False)
    model, _ = tf2onnx.convert.from_function(
        call, ids, opset=_OPSET, custom_op_handlers={"Erfc": (_erfc, [])}
    )
    return model


def _erfc(graph: Any, node: Any, name: str, args: Any) -> None:
    """erfc(x) as 1 - erf(x): TensorFlow's gelu has erfc, tf2onnx knows only erf."""
    inputs, outputs = [*node.input], node.output
    specs = {"dtypes": node.output_dtypes, "shapes": node.output_shapes}
    one = graph.make_const(f"{name}/one", np.array(1, np.float32)).output[0]
    graph.remove_node(name)
    erf = graph.make_node("Erf", inputs, **specs)
    graph.make_node("Sub", [one, erf.output[0]], name=name, outputs=outputs, **specs)


def difference(target: str, rows: Features, outputs: Outputs) -> float:
    """The largest difference between onnxruntime's outputs for rows and `outputs`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(pathlib.Path(target, _MODEL)), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def answer(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(batch)), strict=True))

    return difference_of_ids(answer, rows, outputs)
