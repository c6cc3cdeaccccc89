"""Files as lines of text by which two runs can be compared.

Numbers are kept to the last bit. Dates, durations, speeds, versions and paths are
blanked: they differ from run to run.
"""

from __future__ import annotations

import collections
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

# What is blanked in a text, in this order.
_BLANKS = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?", "DATE"),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"\b[\d.]+ ex/s(  wait [\d.]+ ms)?", "SPEED"),  # a wait is told where it is long
    (r"\b[\d.,]+ (s|ms|seconds?|minutes?|hours?|days?)\b", "TIME"),
    (r"\b\d+(\.\d+)? ?(examples|rows|tokens|steps|texts)/s", "SPEED"),
    (r'"(time|\w*seconds|\w*_per_second)": [\d.e+-]+', r'"\1": TIME'),
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"[\d.]+ (rows|examples) a second", "SPEED"),
    (r"[\d.]+ GB|memory of [\w, ]+ [\d.]+ MB", "SIZE"),  # of this machine
    (r"\b(bert_mgpu|Python|TensorFlow|numpy|Horovod) +v?\d+(\.\d+)+", r"\1 VERSION"),
]
_SECONDS = re.compile(r"seconds|per_second|_s$")


def read(path: pathlib.Path, paths: dict[str, str]) -> list[str]:
    """The lines of a file; empty where another file's lines stand for it.

    paths: text of a path -> what is written instead.
    """
    for pattern, reader in _READERS:
        if re.search(pattern, str(path)):
            return [blanked(line, paths) for line in reader(path)]
    raise AssertionError(path)  # the last pattern fits all


def blanked(text: str, paths: dict[str, str]) -> str:
    for path, name in paths.items():
        text = text.replace(path, name)
    for pattern, instead in _BLANKS:
        text = re.sub(pattern, instead, text)
    return text


def name_of(path: pathlib.Path) -> str:
    """A name without what differs from run to run."""
    text = re.sub(r"events\.out\.tfevents\..*", "events", str(path))
    return re.sub(r"(cache/.*)-[0-9a-f]{24}", r"\1", text)


def _hash(value: np.ndarray) -> str:
    whole = np.ascontiguousarray(value)
    return hashlib.sha256(whole.tobytes()).hexdigest()[:16]


def _tensor(name: str, value: np.ndarray) -> str:
    """Small ones with their values."""
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        return f"{name} {value.dtype.kind} {value.tolist()!r}"
    shown = f" {value.reshape(-1).tolist()!r}" if value.size <= 4 else ""
    return f"{name} {value.dtype} {list(value.shape)} {_hash(value)}{shown}"


def _checkpoint(path: pathlib.Path) -> Iterator[str]:
    reader = tf.train.load_checkpoint(str(path).removesuffix(".index"))
    for name in sorted(reader.get_variable_to_shape_map()):
        yield _tensor(name, reader.get_tensor(name))


def _safetensors(path: pathlib.Path) -> Iterator[str]:
    import safetensors

    with safetensors.safe_open(path, "np") as file:
        for key, value in sorted((file.metadata() or {}).items()):
            yield f"{key}: {value}"
        for name in sorted(file.keys()):
            yield _tensor(name, file.get_tensor(name))


def _cache(path: pathlib.Path) -> Iterator[str]:
    """Without its metadata, which say how the file is found."""
    lines = _safetensors(path)
    return (line for line in lines if re.match(r"\S+ (\w+) \[", line))


def _events(path: pathlib.Path) -> Iterator[str]:
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            if not _SECONDS.search(value.tag):
                yield _tensor(
                    f"{event.step} {value.tag}", tf.make_ndarray(value.tensor)
                )


def _records(path: pathlib.Path) -> Iterator[str]:
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.train.Example.FromString(record.numpy())
        kinds = sorted(example.features.feature.items())
        yield json.dumps(
            {
                name: [*(kind.int64_list.value or kind.float_list.value)]
                for name, kind in kinds
            }
        )


def _saved_model(path: pathlib.Path) -> Iterator[str]:
    """What it takes and gives; its weights stand in variables.index."""
    loaded = tf.saved_model.load(str(path.parent))
    for name, signature in sorted(loaded.signatures.items()):
        takes = signature.structured_input_signature[1]
        yield f"{name} takes {sorted(map(str, takes.values()))}"
        yield f"{name} gives {sorted(map(str, signature.structured_outputs.items()))}"
        texts = tf.constant(["a great win", "the fear of loss ."])
        if all(one.dtype == tf.string for one in takes.values()):
            answers = signature(**dict.fromkeys(takes, texts))
            for key in sorted(answers):
                value = answers[key].numpy()
                yield f"{name} answers {key} {value.tolist()!r}"


def _onnx(path: pathlib.Path) -> Iterator[str]:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    for one in (*model.graph.input, *model.graph.output):
        yield str(one).replace("\n", " ")
    # Names and order of what tf2onnx folds differ from run to run.
    values = map(numpy_helper.to_array, model.graph.initializer)
    yield from sorted(_tensor("", one) for one in values if one.dtype == np.float32)
    counts = collections.Counter(node.op_type for node in model.graph.node)
    yield f"operations {sorted(counts.items())}"


def _picture(path: pathlib.Path) -> Iterator[str]:
    from PIL import Image

    with Image.open(path) as picture:
        yield _tensor("picture", np.asarray(picture))


def _nothing(path: pathlib.Path) -> Iterator[str]:
    return iter(())


def _text(path: pathlib.Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="backslashreplace")
    # Pictures inside a page are files beside it as well.
    yield from re.sub(r"data:image/png;base64,[^\"']+", "PICTURE", text).split("\n")


_READERS: list[tuple[str, Callable[[pathlib.Path], Iterator[str]]]] = [
    (r"\.data-\d+-of-\d+$|tensorflow\.log$|fingerprint\.pb$|\.lock$", _nothing),
    (r"\.index$", _checkpoint),
    (r"/cache/", _cache),
    (r"\.safetensors$", _safetensors),
    (r"events\.out\.tfevents", _events),
    (r"\.tfrecord$", _records),
    (r"saved_model\.pb$", _saved_model),
    (r"\.onnx$", _onnx),
    (r"curves\.png$", _nothing),  # has the speed in it; its numbers are in the records
    (r"\.png$", _picture),
    (r"", _text),
]
