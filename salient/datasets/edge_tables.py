"""Edge lists in text or Parquet files, read in blocks. May import: conversion, numpy, pyarrow.

A table has two columns of integers, source and target; or more, two of which are named ``source``
and ``target``, or ``src`` and ``dst``. Text may have a header line, lines of comment starting with
``#`` above it, and commas, semicolons, tabs or single spaces between its columns.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from salient.datasets.conversion import IdChunk

TEXT_SUFFIXES = tuple(
    kind + packing for kind in (".csv", ".tsv", ".txt") for packing in ("", ".gz")
)
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")

_DELIMITERS = (",", "\t", ";", " ")
_COLUMN_NAMES = (("source", "target"), ("src", "dst"))
_BLOCK_ROWS = 1 << 21
_BLOCK_BYTES = 16 << 20
# A first line longer than this is no edge.
_LONGEST_LINE = 1 << 16


class SpooledEdges:
    """The edges of a table, copied to a scratch file of plain ids, which is fast to read again.

    Parameters
    ----------
    table : Path
        A file with one of ``TABLE_SUFFIXES``.
    num_nodes : int
    scratch : Path
        An existing folder; 8 bytes an edge go there, 16 from 2**31 nodes.

    Raises
    ------
    OSError
        A file cannot be read or written.
    ImportError
        pyarrow is not there.
    ValueError
        No such table, or an id outside [0, num_nodes); the message names path and edge.
    """

    def __init__(self, table: Path, num_nodes: int, scratch: Path) -> None:
        self._dtype = np.dtype(np.int32 if num_nodes < 2**31 else np.int64)
        self._paths = (scratch / "source.ids", scratch / "target.ids")
        self.num_edges = 0
        with self._paths[0].open("wb") as sources, self._paths[1].open("wb") as targets:
            for source, target in _read_table(table):
                self._require_ids(source, target, num_nodes, table)
                source.astype(self._dtype).tofile(sources)
                target.astype(self._dtype).tofile(targets)
                self.num_edges += len(source)

    def chunks(self) -> Iterator[IdChunk]:
        """Yield source and target ids; see :class:`salient.datasets.conversion.EdgeList`."""
        with self._paths[0].open("rb") as sources, self._paths[1].open("rb") as targets:
            while True:
                source = np.fromfile(sources, self._dtype, _BLOCK_ROWS)
                if source.size == 0:
                    return
                yield source, np.fromfile(targets, self._dtype, _BLOCK_ROWS)

    def _require_ids(
        self, source: npt.NDArray[Any], target: npt.NDArray[Any], num_nodes: int, table: Path
    ) -> None:
        outside = (source < 0) | (source >= num_nodes) | (target < 0) | (target >= num_nodes)
        if outside.any():
            at = int(outside.argmax())
            raise ValueError(
                f"{table}: edge {self.num_edges + at}, {source[at]} -> {target[at]}, has an end "
                f"outside [0, {num_nodes}); there are {num_nodes} rows of features, one a node, "
                "and ids count from 0"
            )


def is_edge_table(path: Path) -> bool:
    """Return whether a file's name is that of an edge list."""
    return path.name.lower().endswith(TABLE_SUFFIXES)


def _read_table(path: Path) -> Iterator[IdChunk]:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            f"{path}: reading edge lists needs pyarrow; pip install 'salient-bench[formats]'"
        ) from error
    read = _read_parquet if path.suffix.lower() == ".parquet" else _read_text
    row = 0
    try:
        for batch in read(path):
            columns = []
            for column in batch.columns:
                if not pa.types.is_integer(column.type) or column.null_count:
                    what = "empty fields" if column.null_count else f"values of {column.type}"
                    raise ValueError(
                        f"rows {row} to {row + len(column) - 1} have {what}, expected integers"
                    )
                columns.append(column.to_numpy(zero_copy_only=False))
            row += len(batch)
            yield columns[0], columns[1]
        if row == 0:
            raise ValueError("has no edges")
    except (ValueError, pa.ArrowException, EOFError, OSError) as error:
        # pyarrow calls damage an OSError too, without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path}: {error}; mend the file") from error


def _read_parquet(path: Path) -> Iterator[Any]:
    from pyarrow import parquet

    with path.open("rb") as stream:
        table = parquet.ParquetFile(stream)
        names = table.schema_arrow.names
        source, target = _choose_columns(names)
        for batch in table.iter_batches(_BLOCK_ROWS, columns=[names[source], names[target]]):
            # In the order of the file, whatever was asked for.
            yield batch.select([names[source], names[target]])


class _Head(NamedTuple):
    num_lines: int
    columns: list[str]
    delimiter: str
    has_header: bool


def _read_text(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    head = _read_head(path)
    if not head.has_header and len(head.columns) != 2:
        raise ValueError(f"has {len(head.columns)} columns and no header; expected two")
    chosen = [str(column) for column in _choose_columns(head.columns)]
    with csv.open_csv(
        str(path),
        read_options=csv.ReadOptions(
            block_size=_BLOCK_BYTES,
            skip_rows=head.num_lines,
            column_names=[str(column) for column in range(len(head.columns))],
        ),
        parse_options=csv.ParseOptions(delimiter=head.delimiter),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(chosen, pa.int64()), include_columns=chosen
        ),
    ) as reader:
        yield from reader


def _read_head(path: Path) -> _Head:
    """Look at the first line that is no comment."""
    comments = 0
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("rb"))
        if path.suffix.lower() == ".gz":
            stream = stack.enter_context(gzip.GzipFile(fileobj=stream))
        while (line := stream.readline(_LONGEST_LINE)).startswith(b"#"):
            comments += 1
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"is no text ({error})") from error
    if not text:
        raise ValueError("has no edges")
    delimiter = next((mark for mark in _DELIMITERS if mark in text), ",")
    fields = [field.strip().strip('"') for field in text.split(delimiter)]
    has_header = not all(field.lstrip("-").isdecimal() for field in fields)
    return _Head(comments + has_header, fields, delimiter, has_header)


def _choose_columns(names: list[str]) -> tuple[int, int]:
    lower = [name.lower() for name in names]
    for source, target in _COLUMN_NAMES:
        if lower.count(source) == lower.count(target) == 1:
            return lower.index(source), lower.index(target)
    if len(names) != 2:
        raise ValueError(
            f"has the columns {', '.join(names)}; expected two, or two named source and target"
        )
    return 0, 1
