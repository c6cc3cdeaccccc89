"""The output files of extract_features.py: JSON lines like Google's, .npy and .npz.

Letters: N lines, T tokens in all of them, K layers, H width. A file is written block by
block, and gets its name only when it is whole.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import files, log
from bert_mgpu.core.files import STANDARD_OUTPUT
from bert_mgpu.core.rows import Ragged
from bert_mgpu.evaluation import decimals

_HEADER = 128  # bytes of a .npy file's header: enough for any shape here
_MAGIC = b"\x93NUMPY\x01\x00"
_COPIED = 1 << 24  # bytes at a time


class FeatureBlock(NamedTuple):
    """Consecutive lines and their vectors."""

    first: int  # the number of the first line, from 0
    token_ids: Ragged  # int32, with [CLS] and [SEP]
    values: Ragged | np.ndarray  # float32 [T, K, H] by line; pooled [N, H]
    # By number, why a line could not be read; lines of JSON have this for its values.
    unread: Mapping[int, str] = types.MappingProxyType({})


class FeatureForm(NamedTuple):
    """What a file of features holds."""

    layers: Sequence[int]  # as they were requested
    shape: tuple[int, ...]  # of the values of a token or, pooled, of a line
    tokens: Sequence[str]  # the vocabulary
    dtype: str  # of the values in .npy and .npz


# Writes a block; returns False when nobody reads the output any more.
Write = Callable[[FeatureBlock], bool]


def are_lines(path: str) -> bool:
    """Whether a file of this name holds lines of JSON."""
    return pathlib.Path(path).suffix.lower() not in _FORMATS


@contextlib.contextmanager
def writer(path: str, form: FeatureForm) -> Iterator[Write]:
    """Yields a function that writes blocks to a file, or to STANDARD_OUTPUT.

    The path's ending decides the format. The file gets its name if all goes well.
    """
    if path == STANDARD_OUTPUT:
        yield lambda block: all(map(log.write_stdout, json_lines(block, form)))
        return
    target = pathlib.Path(path)
    write_to = _FORMATS.get(target.suffix.lower(), _json_file)
    with files.replacing(target) as temporary, write_to(temporary, form) as write:
        yield write


# -- JSON lines --------------------------------------------------------------------


def json_lines(block: FeatureBlock, form: FeatureForm) -> Iterator[str]:
    """Google's lines of JSON: the tokens of each text and their values in each layer.

    Lines of pooled vectors are {"linex_index": 0, "values": [...]}.
    """
    for index in range(len(block.token_ids.lengths)):
        start = f'{{"linex_index": {block.first + index}, '
        if error := block.unread.get(block.first + index):
            yield f'{start}"error": {json.dumps(error, ensure_ascii=False)}}}\n'
        elif isinstance(block.values, Ragged):
            tokens = [form.tokens[number] for number in block.token_ids.row(index)]
            features = _features(tokens, block.values.row(index), form.layers)
            yield f'{start}"features": [{features}]}}\n'
        else:
            (values,) = decimals.lists(block.values[index : index + 1])
            yield f'{start}"values": {values}}}\n'


def _features(tokens: Sequence[str], values: np.ndarray, layers: Sequence[int]) -> str:
    """The JSON objects of a line's tokens, joined by commas. values: [tokens, K, H]."""
    lists = iter(decimals.lists(values.reshape(-1, values.shape[-1])))
    return ", ".join(
        f'{{"token": {json.dumps(token)}, "layers": ['
        + ", ".join(f'{{"index": {n}, "values": {next(lists)}}}' for n in layers)
        + "]}"
        for token in tokens
    )


@contextlib.contextmanager
def _json_file(path: pathlib.Path, form: FeatureForm) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(block: FeatureBlock) -> bool:
            file.writelines(json_lines(block, form))
            return True

        yield write


# -- numpy's files -----------------------------------------------------------------


class _GrowingArray:
    """A .npy file (numpy.lib.format, version 1.0) to which rows are added."""

    def __init__(self, path: pathlib.Path, dtype: str, shape: tuple[int, ...]):
        """shape: that of a row."""
        self.path, self._dtype, self._shape = path, np.dtype(dtype), shape
        self._rows = 0
        self._file = path.open("wb")
        self._file.write(self._header())

    def add(self, values: np.ndarray) -> None:
        """Appends values [rows, *shape]."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._rows += len(values)

    def close(self) -> None:
        """Writes the number of rows into the header, and closes the file."""
        with self._file:
            self._file.seek(0)
            self._file.write(self._header())

    def _header(self) -> bytes:
        fields = {"descr": self._dtype.str, "fortran_order": False}
        text = repr({**fields, "shape": (self._rows, *self._shape)})
        length = _HEADER - len(_MAGIC) - 2
        return (
            _MAGIC
            + length.to_bytes(2, "little")
            + f"{text:{length - 1}}\n".encode("latin-1")
        )


@contextlib.contextmanager
def _npy_file(path: pathlib.Path, form: FeatureForm) -> Iterator[Write]:
    """Writes float [N, H]: the vector of each line."""
    array = _GrowingArray(path, form.dtype, form.shape)

    def write(block: FeatureBlock) -> bool:
        array.add(np.asarray(block.values))
        return True

    with contextlib.closing(array):
        yield write


@contextlib.contextmanager
def _npz_file(path: pathlib.Path, form: FeatureForm) -> Iterator[Write]:
    """Writes offsets int64 [N + 1], tokens str [T], values float [T, K, H].

    The tokens of line i are those from offsets[i] to offsets[i + 1].
    """
    longest = max(map(len, form.tokens))
    vocabulary = np.array(form.tokens, f"<U{longest}")
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}."
    ) as scratch:
        arrays = {
            name: _GrowingArray(pathlib.Path(scratch, f"{name}.npy"), dtype, shape)
            for name, dtype, shape in (
                ("offsets", "<i8", ()),
                ("tokens", vocabulary.dtype.str, ()),
                ("values", form.dtype, form.shape),
            )
        }
        arrays["offsets"].add(np.zeros(1, np.int64))
        total = 0

        def write(block: FeatureBlock) -> bool:
            nonlocal total
            assert isinstance(block.values, Ragged)
            arrays["offsets"].add(total + block.token_ids.offsets[1:])
            arrays["tokens"].add(vocabulary[block.token_ids.values])
            arrays["values"].add(block.values.values)
            total += len(block.token_ids.values)
            return True

        with contextlib.ExitStack() as closing:
            for array in arrays.values():
                closing.enter_context(contextlib.closing(array))
            yield write
        # An array begins with its length, so it must be whole before it is archived.
        with zipfile.ZipFile(path, "w") as archive:
            for array in arrays.values():
                with (
                    array.path.open("rb") as source,
                    archive.open(array.path.name, "w", force_zip64=True) as member,
                ):
                    shutil.copyfileobj(source, member, _COPIED)
                array.path.unlink()


_FORMATS: Mapping[
    str,
    Callable[[pathlib.Path, FeatureForm], contextlib.AbstractContextManager[Write]],
] = {".npy": _npy_file, ".npz": _npz_file}
