"""Write what callers hold in memory to files, which a command reads as any other file.

The name of a file is a hash of its content: the same call writes the same file.
"""

import inspect
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from math import isnan
from os import PathLike, fspath
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, OptionError, format_error
from zelo_ray.files.pools import pool_row
from zelo_ray.files.storage import write_by_content
from zelo_ray.names import join_name
from zelo_ray.records import Pool
from zelo_ray.report.results import Results
from zelo_ray.rerankers.custom import PACKED

_SEVERAL = frozenset({"inputs", "pools", "sources", "runs"})
_ONE = frozenset({"truth", "human", "old", "new", "source", "corpus", "queries", "qrels"})


def as_options(keywords: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return keywords as options: what is in memory is written to files below a folder."""
    return {name: _as_option(name, value, folder) for name, value in keywords.items()}


def _as_option(name: str, value: Any, folder: str) -> Any:
    if name == "rerankers":
        return store_rerankers(value, folder)
    if name in _SEVERAL:
        return _store_several(name, value, folder)
    if name in _ONE or isinstance(value, Results | PathLike):
        return _store_one(name, value, folder)
    return [_as_option("", each, folder) for each in value] if isinstance(value, list) else value


def _store_several(name: str, value: Any, folder: str) -> list[str]:
    """Return the places of inputs, of which each may be in memory; or of one that is a list."""
    if isinstance(value, Mapping) and name in ("runs", "sources"):
        if not all(map(str, value)):
            raise InputError(f"{name}: a name is empty")
        places = {key: _store_one(f"{name}-{key}", each, folder) for key, each in value.items()}
        return [join_name(str(key), place) for key, place in places.items()]
    are_rows = not isinstance(value, list | tuple | set | frozenset) or any(
        isinstance(each, Mapping | Pool) for each in value
    )
    return [_store_one(name, each, folder) for each in ([value] if are_rows else value)]


def _store_one(name: str, value: Any, folder: str) -> str:
    """Return the place of a table: where it is, or that of the file to which it is written."""
    if isinstance(value, Results):
        return value.out
    if isinstance(value, str | PathLike):
        return fspath(value)
    if hasattr(value, "docs_iter") and hasattr(value, "dataset_id"):
        return f"ir_datasets:{value.dataset_id()}"
    try:
        ending, data = _to_file(name, value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name}: cannot be written as a table ({format_error(error)})") from None
    return write_by_content(folder, name, ending, [data])


def _to_file(name: str, value: Any) -> tuple[str, bytes]:
    """Return the ending and the content of the file of a frame, a mapping or rows."""
    if type(value).__name__ == "Series" or isinstance(value, pa.ChunkedArray):
        raise InputError(f"{name}: cannot be a Series; give a frame with its columns")
    if hasattr(value, "reset_index"):
        return _frame_file(value)
    if hasattr(value, "__arrow_c_stream__"):
        return _parquet(pa.table(value))
    if _is_nested(value):
        number = "score" if name.startswith("run") else "relevance"
        types = {"query_id": pa.string(), "doc_id": pa.string(), number: pa.float64()}
        cells = [
            {"query_id": str(query), "doc_id": str(doc), number: each}
            for query, numbers in value.items()
            for doc, each in numbers.items()
        ]
        return _parquet(pa.Table.from_pylist(cells, pa.schema(types)))
    rows = [value] if isinstance(value, Mapping | Pool) else value
    if isinstance(rows, list | tuple):
        return _lines(rows)
    kind = type(value).__name__
    how = "write paths, a data frame, or a list of dicts"
    raise InputError(f"{name}: cannot be of the type {kind}; {how}")


def _is_nested(value: object) -> bool:
    """Return whether a value maps queries to mappings from documents to numbers."""
    return isinstance(value, Mapping) and all(
        isinstance(each, Mapping) and not any(isinstance(number, str) for number in each.values())
        for each in value.values()
    )


def _frame_file(frame: Any) -> tuple[str, bytes]:
    """Return the file of a frame of pandas; the named levels of an index are columns."""
    levels = [level for level in frame.index.names if level and level not in frame.columns]
    frame = frame.reset_index(level=levels) if levels else frame
    if "object" not in map(str, frame.dtypes):  # whose cells may be anything
        return _parquet(pa.Table.from_pandas(frame, preserve_index=False))
    return _lines(frame.astype(object).where(frame.notna(), None).to_dict("records"))


def _parquet(table: pa.Table) -> tuple[str, bytes]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)  # plain types, which every reader knows
    return ".parquet", sink.getvalue().to_pybytes()


def _lines(rows: Any) -> tuple[str, bytes]:
    texts = list[str]()
    for row in rows:
        if not isinstance(row, Mapping | Pool):
            raise TypeError(f"an item is a {type(row).__name__}, and not a dict")
        plain = _plain(pool_row(row) if isinstance(row, Pool) else row)
        texts.append(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")
    return ".jsonl", "".join(texts).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN is null, a date or a decimal number its text."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value)):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    if not (hasattr(value, "isoformat") or isinstance(value, Decimal | UUID)):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return str(value)


def store_rerankers(rerankers: Any, folder: str) -> list[str]:
    """Return rerankers as the command line takes them; pack those in memory into files."""
    if isinstance(rerankers, Mapping):
        return [_store_reranker(str(name), each, folder) for name, each in rerankers.items()]
    several = rerankers if isinstance(rerankers, list | tuple) else [rerankers]
    return [
        each if isinstance(each, str) else _store_reranker(_name_of(each), each, folder)
        for each in several
    ]


def _store_reranker(name: str, reranker: Any, folder: str) -> str:
    label = re.sub("[:/=@]", "_", name)
    if isinstance(reranker, str):
        return f"{label}={reranker}"
    if not (callable(reranker) or hasattr(reranker, "score")):
        kind = type(reranker).__name__
        raise OptionError(
            f"rerankers: cannot be of the type {kind}; write a name such as bm25, a function of "
            "query and documents, or an object with score(query, documents)"
        )
    from zelo_ray.ray import pack_object  # noqa: PLC0415 - it sets variables of Ray

    try:
        data = pack_object(reranker)
    except Exception as error:  # noqa: BLE001 - whatever the caller's own objects raise
        raise OptionError(
            f"rerankers: {name} cannot be sent to another process ({error}); create what cannot "
            "be pickled on first use, or name it module:Class"
        ) from None
    return f"{label}=custom:{write_by_content(folder, label, PACKED, [data])}"


def _name_of(reranker: Any) -> str:
    plain = inspect.isclass(reranker) or inspect.isroutine(reranker)
    return str(getattr(reranker if plain else type(reranker), "__name__", "reranker"))
