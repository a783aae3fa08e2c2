"""Worked examples out of people's labels: of one query, which then measures no judge.

Once chosen they are kept beside the ledger, by the place of the labels, and stay when labels or
input grow: other examples would be other questions, and all would be paid for anew.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

import fsspec
import orjson
import yaml

from zelo_ray.engine.durable import write_durably
from zelo_ray.engine.learning import read_grades
from zelo_ray.engine.ledger import FOLDER as REPLIES
from zelo_ray.errors import InputError, OptionError, format_error
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.protocols.anchors import GRADES, example_query_ids, parse_anchors
from zelo_ray.protocols.texts import shorten_document, shown_query
from zelo_ray.records import Document, Pool
from zelo_ray.wrapping import break_special_tokens

Annotating = TypeVar("Annotating", bound=AnnotateOptions)
_TOKENS = 500
"""Of a longer document an example shows the beginning."""
_FILE = "_examples.json"  # readers of a folder of data pass over names that begin so


def with_chosen_examples(
    options: Annotating, shards: Sequence[str], say: Callable[[str], None], *, keep: bool = True
) -> Annotating:
    """Return the options with the examples chosen from ``anchors_from``; see `choose_examples`.

    They stay as they are where ``anchors`` is given, or was chosen before.
    """
    if "anchors" in options.model_fields_set:
        return options
    text = choose_examples(options, shards, say, keep=keep)
    return options.model_copy(update={"anchors": text}) if text else options


def choose_examples(
    options: JudgingOptions, shards: Sequence[str], say: Callable[[str], None], *, keep: bool = True
) -> str | None:
    """Return the examples chosen from ``anchors_from``, as the text of a file; None without it.

    Of all queries with a document of each grade it is the one whose four are the most alike in
    length, so that length tells no grade.

    Args:
        options: of the job.
        shards: the files of the input.
        say: is told whose examples they are.
        keep: whether to write the choice beside the ledger.

    Raises:
        InputError: what was chosen before, or the labels, cannot be read; or no query has a
            document of each grade.
        OptionError: sessions are judged.
    """
    place: str | None = getattr(options, "anchors_from", None)
    if place is None:
        return None
    if options.blocks == "session":
        raise OptionError("anchors_from takes its examples from queries, not from sessions")
    fs, root = fsspec.url_to_fs(options.ledger_dir)
    path, whose = f"{root.rstrip('/')}/{REPLIES}/{_FILE}", _resolved(place)
    texts = _read_chosen(fs, path)
    before = " as before" if whose in texts else ""
    if texts and not before:
        say(
            f"other examples than those of {', '.join(sorted(texts))}: "
            "everything will be asked again"
        )
    text = texts.get(whose) or _chosen(place, shards, options)
    if keep and not before:
        write_durably(fs, path, orjson.dumps({**texts, whose: text}, option=orjson.OPT_INDENT_2))
    say(
        f"worked examples{before}: of query {min(example_query_ids(text))!r} of {place}, "
        "by which no judge "
        "is measured then"
    )
    return text


def _resolved(place: str) -> str:
    """Return one name for a place, however it was written: an absolute path, or a URL."""
    fs, path = fsspec.url_to_fs(place)
    return str(path if "file" in fs.protocol else fs.unstrip_protocol(path).rstrip("/"))


def _read_chosen(fs: fsspec.AbstractFileSystem, path: str) -> dict[str, str]:
    """Read the examples chosen by earlier runs, by the place of their labels."""
    try:
        texts: dict[str, str] = orjson.loads(fs.cat_file(path))
        for text in texts.values():
            parse_anchors(text)
    except FileNotFoundError:
        return {}
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise InputError(
            f"{path}: the worked examples that were chosen cannot be read "
            f"({format_error(error)}); bring "
            "the file back from a copy, or remove it, and everything may be asked again with others"
        ) from None
    return texts


def _chosen(place: str, shards: Sequence[str], options: JudgingOptions) -> str:
    """Return the file of examples that the best query makes."""
    grades_by_query: dict[str, dict[str, int]] = {}
    for row in read_grades(place, columns=split_columns(options.columns)).to_pylist():
        grades_by_query.setdefault(row["query_id"], {})[row["doc_id"]] = int(row["relevance"])
    candidates = list[tuple[tuple[bool, float, str], str]]()
    count, of = 0, ""
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool is None or (grades := grades_by_query.pop(line.pool.query_id, None)) is None:
            continue
        examples = _examples(line.pool, grades, options)
        if len(examples) > count:
            count, of = len(examples), line.pool.query_id
        if len(examples) == len(GRADES):
            candidates.append(
                (_unevenness(line.pool, examples), _written(line.pool, examples, options))
            )
    if not candidates:
        note = f"the most are {count}, of query {of!r}" if count else "the input has none of them"
        raise InputError(
            f"{place}: no query has labelled documents of all grades 0, 1, 2 and 3 ({note}); label "
            "more of one query, or write examples for --anchors"
        )
    return min(candidates)[1]


def _examples(
    pool: Pool, grades: Mapping[str, int], options: JudgingOptions
) -> dict[int, tuple[bool, str]]:
    """Return an example text for each grade, and whether the document is shown whole.

    Of several it is the one that is nearest to the middle of the lengths.
    """
    labelled = [
        document for document in pool.documents[: options.document_limit] if document.id in grades
    ]
    shown = list[tuple[bool, Document]]()
    for document in labelled:
        excerpt = shorten_document(document, _TOKENS, options.show_metadata)
        shown.append((document.content in excerpt.content, excerpt))
    lengths = [len(document.content) for is_whole, document in shown if is_whole]
    middle = median(lengths or [len(document.content) for _, document in shown] or [0])
    shown.sort(
        key=lambda example: (example[0], -abs(len(example[1].content) - middle), example[1].id)
    )
    return {grades[doc.id]: (is_whole, doc.content) for is_whole, doc in shown}  # the last of each


def _unevenness(pool: Pool, examples: Mapping[int, tuple[bool, str]]) -> tuple[bool, float, str]:
    """Return what to minimise: whether any text is cut, then the ratio of longest to shortest."""
    lengths = [len(text) for _, text in examples.values()]
    is_cut = not all(is_whole for is_whole, _ in examples.values())
    return is_cut, max(lengths) / min(lengths), pool.query_id


def _written(pool: Pool, examples: Mapping[int, tuple[bool, str]], options: JudgingOptions) -> str:
    """Return the file of examples; its query is as the people saw it who gave the grades."""
    grades = {
        grade: {"document": break_special_tokens(text), "reason": ""}
        for grade, (_, text) in sorted(examples.items())
    }
    query = break_special_tokens(shown_query(pool, options.show_query))
    about = {"query_id": pool.query_id, "query": query, "grades": grades}
    return yaml.safe_dump(about, allow_unicode=True, sort_keys=False)
