"""Checkpoints in the format of google-research/bert's TensorFlow 1 code.

The format is TensorFlow's TensorBundle (checkpoint V2): PREFIX.index holds the
name, shape and CRC32C of every tensor, PREFIX.data-* the values. TensorFlow verifies
the checksums of values while it reads; an error there becomes a `UserError`.
`tensor_bundle.py` checks the index first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import tensor_bundle
from bert_mgpu.core import files
from bert_mgpu.core.errors import Unreadable, UserError, listed

_BUNDLE_FILE = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_GRAPH_NODE = re.compile(r"\{\{.*?\}\} ?")
_DAMAGED = "damaged"
_USUAL = "bert_model.ckpt"
_STATE = "checkpoint"
_MOST_STATE = 1 << 20  # bytes of that file
# Errors of a file that cannot be read at the moment, which say nothing about its
# content. TensorFlow's reader reports no errno, only the system's message for it.
_UNREADABLE = (
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE),
    *(errno.ENOMEM, errno.ENOBUFS, errno.ENOTCONN, errno.ETIMEDOUT, errno.EAGAIN),
)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def resolve(path: str | os.PathLike[str]) -> str:
    """The prefix of the checkpoint at `path`.

    `path` is a prefix, one of the checkpoint's files, or a directory. In a directory
    the file `checkpoint` decides; without it, bert_model.ckpt or the only checkpoint.
    """
    prefix = _BUNDLE_FILE.sub("", os.fspath(path))
    if _is_file(f"{prefix}.index"):
        return prefix
    if os.path.isdir(prefix):
        return _resolve_directory(pathlib.Path(prefix))
    if _is_v1(prefix):
        raise UserError(
            f"{prefix}: a checkpoint of TensorFlow's old V1 format: convert it"
            " once: restore it and save it with tf.compat.v1.train.Saver(),"
            " which writes V2"
        )
    raise UserError(
        f"{prefix}.index: no such file: pass a checkpoint's name without"
        " .index, such as DIR/bert_model.ckpt, or its directory"
    )


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether `path` names an existing checkpoint, or one of its files."""
    return os.path.isfile(f"{_BUNDLE_FILE.sub('', os.fspath(path))}.index")


def _is_file(path: str) -> bool:
    """Whether `path` is a regular file. Raises Unreadable if that cannot be told."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise Unreadable(path, error.strerror) from None
    except ValueError:  # a NUL in the path
        pass
    return False


def read_names(
    path: str | os.PathLike[str],
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Name -> (shape, dtype) of every tensor; strings have dtype object."""
    prefix = resolve(path)
    with _naming(f"{prefix}.index"):
        reader = _open(prefix)
        dtypes = reader.get_variable_to_dtype_map()
        return {
            name: (tuple(shape), np.dtype(dtypes[name].as_numpy_dtype))
            for name, shape in sorted(reader.get_variable_to_shape_map().items())
        }


def read(
    path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Name -> value of the tensors in `names`, or of all tensors.

    A scalar string is an array of dtype object whose `.item()` is `bytes`.
    """
    prefix = resolve(path)
    with _naming(f"{prefix}.index"):
        reader = _open(prefix)
        stored = reader.get_variable_to_shape_map()
    wanted = sorted(stored if names is None else set(names))
    absent = [name for name in wanted if name not in stored]
    if absent:
        raise UserError(
            f"{prefix}: has no tensor {absent[0]}"
            f" ({len(absent)} of {len(wanted)} are missing)"
        )
    with _naming(f"{prefix}.data-*"):
        return {name: _as_array(reader.get_tensor(name)) for name in wanted}


def verify(path: str | os.PathLike[str]) -> None:
    """Reads every tensor once, so that a bad checksum raises UserError."""
    prefix = resolve(path)
    with _naming(f"{prefix}.index"):
        reader = _open(prefix)
        names = reader.get_variable_to_shape_map()
    with _naming(f"{prefix}.data-*"):
        for name in names:
            reader.get_tensor(name)


def write(prefix: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Writes arrays, TensorFlow tensors, numbers and `bytes` under `prefix`.

    Strings come as `bytes` or arrays of dtype object: numpy's own string type
    drops zero bytes at the end. Neither atomic nor rotating.
    """
    import tensorflow as tf

    names = sorted(tensors)
    with (
        _naming(f"{os.fspath(prefix)}.index", "cannot be written"),
        tf.device("CPU:0"),
    ):
        pathlib.Path(prefix).parent.mkdir(parents=True, exist_ok=True)
        tf.raw_ops.SaveV2(
            prefix=os.fspath(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
        )


def _open(prefix: str) -> Any:
    """TensorFlow's reader of `prefix`. Raises UserError if it is object-based."""
    import tensorflow as tf

    files.check_literal(prefix)
    tensor_bundle.check(prefix)
    reader = tf.train.load_checkpoint(prefix)
    if reader.has_tensor(_OBJECT_GRAPH):
        raise UserError(
            f"{prefix}: written by tf.train.Checkpoint or Keras, whose names"
            " are not those of google-research/bert: pass a TF1 checkpoint or a"
            " Hugging Face folder with model.safetensors"
        )
    return reader


def _as_array(value: Any) -> np.ndarray:
    """A value as an array: the reader gives a scalar string as plain `bytes`."""
    return np.asarray(value, object if isinstance(value, bytes) else None)


@contextlib.contextmanager
def _naming(file: str, fault: str = _DAMAGED) -> Iterator[None]:
    """Turns TensorFlow's errors on a checkpoint into one line about `file`.

    Raises UserError, or Unreadable where the file itself may be intact.
    """
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, OSError, IndexError, RuntimeError) as error:
        # A short read is an IndexError; ops put their graph node before the message.
        reason = _GRAPH_NODE.sub("", str(getattr(error, "message", error)))
        reason = reason.strip().split("\n")[0]
        if fault == _DAMAGED and _is_unreadable(error, reason):
            raise Unreadable(file, reason) from None
        raise UserError(f"{file}: {fault}: {reason}") from None


def _is_unreadable(error: Exception, reason: str) -> bool:
    """Whether an error on reading says nothing of what the file holds."""
    if isinstance(error, OSError):
        return error.errno in _UNREADABLE
    return any(os.strerror(number) in reason for number in _UNREADABLE)


def _resolve_directory(directory: pathlib.Path) -> str:
    state_file = directory / _STATE
    if files.lexists(state_file):
        named = _named_newest(state_file)
        # Only a file beside it is taken: the paths in it may date from before the
        # directory was moved or copied, or lead anywhere.
        prefix = directory / pathlib.PurePath(named).name
        if os.path.isfile(f"{prefix}.index"):
            return os.fspath(prefix)
        raise UserError(
            f"{state_file}: names {listed([named])}, which is not there: pass a"
            " checkpoint's name instead of the directory"
        )
    stems = sorted(file.stem for file in directory.glob("*.index"))
    if len(stems) != 1 and _USUAL not in stems:
        raise UserError(
            f"{directory}: holds {len(stems)} checkpoints"
            f" ({', '.join(stems[:5]) or 'no *.index file'}): pass the name of"
            " one, without .index"
        )
    return os.fspath(directory / (stems[0] if len(stems) == 1 else _USUAL))


def _named_newest(path: pathlib.Path) -> str:
    """The newest checkpoint, as the file `checkpoint` names it."""
    import tensorflow as tf

    files.read_text(path, _MOST_STATE)  # rejects binary or endless files
    state = None
    with contextlib.suppress(ValueError):
        state = tf.train.get_checkpoint_state(os.fspath(path.parent))
    if state is None:
        raise UserError(
            f"{path}: damaged: pass a checkpoint's name instead of the directory"
        )
    return state.model_checkpoint_path


def _is_v1(path: str) -> bool:
    try:
        with files.open_regular(pathlib.Path(path)) as file:
            file.seek(-len(tensor_bundle.MAGIC), os.SEEK_END)
            return file.read() == tensor_bundle.MAGIC
    except OSError:
        return False
