"""A classifier as an ONNX model of ids, for onnxruntime and what else reads ONNX.

tf2onnx (https://github.com/onnx/tensorflow-onnx) converts; texts stay outside, since
ONNX has no operations that could tokenize them.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core import extras, files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Features, Outputs
from bert_mgpu.export.saved_model import (
    FACTS,
    IDS_INPUTS,
    TOGETHER,
    Served,
    largest_gap,
)

_MODEL, _VOCAB = "model.onnx", "vocab.txt"
_NEEDED = ("tf2onnx", "onnx", "onnxruntime")
_OPSET = 18  # of 2023: onnxruntime 1.14 and later
_MOST_BYTES = 2**31 - 2**24  # of a protocol buffer, with room for the graph


def check(target: str) -> None:
    """Raises UserError where a package is missing or the folder cannot be written."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"--export_onnx needs {', '.join(missing)}: {extras.advice('onnx')}"
        )
    ours = {_MODEL, _VOCAB, FACTS}
    files.check_replaceable(
        pathlib.Path(target).absolute(), lambda found: FACTS in found and found <= ours
    )


def write(target: str, served: Served, vocab_file: str) -> None:
    """Writes the folder whole, in the place of an earlier export.

    model.onnx takes input_ids, input_mask, segment_ids int32 [rows, tokens], any
    number of both; its outputs are those of the SavedModel. Raises UserError where the
    disk refuses, or the model is too large for a file of this format.
    """
    import onnx

    if served.bytes > _MOST_BYTES:
        raise UserError(
            f"--export_onnx: {served.bytes / 2**30:.1f} GiB of weights, one ONNX file"
            " holds 2: pass --export_saved_model"
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
            (new / _VOCAB).write_bytes(pathlib.Path(vocab_file).read_bytes())
            (new / FACTS).write_text(facts + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: cannot export: {error.strerror}") from None


def _converted(served: Served) -> Any:
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    ids = [tf.TensorSpec([None, None], tf.int32, name) for name in IDS_INPUTS]
    call = tf.function(served.of_ids, input_signature=ids, autograph=False)
    model, _ = tf2onnx.convert.from_function(
        call, ids, opset=_OPSET, custom_op_handlers={"Erfc": (_erfc, [])}
    )
    return model


def _erfc(graph: Any, node: Any, name: str, args: Any) -> None:
    """erfc(x) = 1 - erf(x): tf2onnx knows erf alone, TensorFlow's gelu has erfc."""
    inputs, outputs = [*node.input], node.output
    kinds = {"dtypes": node.output_dtypes, "shapes": node.output_shapes}
    one = graph.make_const(f"{name}/one", np.array(1, np.float32)).output[0]
    graph.remove_node(name)
    erf = graph.make_node("Erf", inputs, **kinds)
    graph.make_node("Sub", [one, erf.output[0]], name=name, outputs=outputs, **kinds)


def difference(target: str, rows: Features, outputs: Outputs) -> float:
    """How far onnxruntime's outputs of rows of ids are from these, at most."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(pathlib.Path(target, _MODEL)), providers=["CPUExecutionProvider"]
    )
    names = sorted(outputs.keys() & {one.name for one in session.get_outputs()})
    far = 0.0
    for start in range(0, len(rows), TOGETHER):
        numbers = np.arange(start, min(start + TOGETHER, len(rows)))
        found = session.run(names, _padded(rows.take(numbers)))
        for name, values in zip(names, found, strict=True):
            far = max(far, largest_gap(outputs[name], numbers, values))
    return far


def _padded(rows: Features) -> dict[str, np.ndarray]:
    sizes = rows.lengths[:, None]
    mask = (np.arange(sizes.max())[None] < sizes).astype(np.int32)
    found = {"input_mask": mask}
    for name in ("input_ids", "segment_ids"):
        found[name] = np.zeros_like(mask)
        found[name][mask > 0] = rows.ragged[name].values
    return found
