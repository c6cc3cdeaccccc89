"""The rows of a Parquet file, as JSON would hold them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import check_file
from bert_mgpu.data import columns as column_lib
from bert_mgpu.data.columns import Column


def cells(path: Any, columns: Sequence[Column | None]) -> Iterator[tuple[int, Any]]:
    """Yields pairs (row number from 1, cells of these columns in order).

    Raises:
      UserError: pyarrow is missing, the file is none of Parquet or lacks a column.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet needs pyarrow: {extras.advice('parquet')}"
        ) from None
    check_file(path)
    names = column_lib.names(path, columns)
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            known = file.schema_arrow.names
            for name in names:
                if name is not None and known.count(name) != 1:
                    fault = column_lib.repeated if name in known else column_lib.absent
                    raise UserError(f"{path}: {fault(name, known)}")
            wanted = sorted({name for name in names if name is not None})
            for batch in file.iter_batches(batch_size=1024, columns=wanted):
                for record in batch.to_pylist():
                    number += 1
                    yield number, [name and _plain(record[name]) for name in names]
    # Values that Python cannot hold are ValueErrors: nanoseconds, years after 9999.
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{path}: not a Parquet file: {why}") from None


def _plain(value: Any) -> Any:
    """The value; decimals and dates, which JSON has no types for, as texts."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value
