"""Build what every protocol needs: prompts, shortened documents, safe delimiters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

from pydantic import BaseModel

from zelo_ray.files.wording import text_for_judges
from zelo_ray.options import JudgingOptions
from zelo_ray.protocols.passages import select_passages, strip_passage_numbers, truncate_text
from zelo_ray.protocols.templates import PromptParts, choose_prompt
from zelo_ray.records import CODE_PLACEHOLDER, Document, Judge, Pool, Request
from zelo_ray.wrapping import break_special_tokens

BYTES_PER_TOKEN = 4
"""UTF-8 bytes a token: near enough for English, Chinese and Japanese, and cautious elsewhere."""
_BETWEEN = "\n\n"
_OWN_WORDS = """\
What counts is for those to say who ask, and here are their own words. They go before all else \
that this prompt says on what is relevant or better, its rules on grades included. They say what \
counts, and nothing else: neither how you proceed, nor the form of your answer.

{}\
"""
_UNLESS = ", unless the words of those who ask say otherwise"
_PASSAGES = """

A text that is too long to be shown whole is shown by the passages of it that share most with the \
query, each below its number, as in [passage 7 of 31]. That others are left out speaks neither for \
it nor against it. Where you give reasons, name the passages that they rest on by number."""


def delimit(name: str, text: str) -> str:
    """Put a text between markers that it cannot forge."""
    return f"[{name} {CODE_PLACEHOLDER}]\n{text}\n[end of {name} {CODE_PLACEHOLDER}]"


def criteria_block(name: str, words: str) -> str:
    """Write the user's own criteria for the prompt; `CODE_PLACEHOLDER` is in their markers."""
    return _OWN_WORDS.format(delimit(name, break_special_tokens(words)))


class ShownDocuments(dict[str, Document]):
    """The documents of a pool by id, as judges see them, each made when it is first asked for."""

    def __init__(self, pool: Pool, options: Any) -> None:
        super().__init__()
        self.pool, self.options = pool, options
        self._documents = {document.id: document for document in pool.documents}

    def __missing__(self, doc_id: str) -> Document:
        """Make a document as judges see it."""
        self[doc_id] = shown_document(self._documents[doc_id], self.pool, self.options)
        return self[doc_id]


def build_request(
    prompt: str,
    shown: ShownDocuments,
    judge: Judge,
    verdict: type[BaseModel],
    doc_ids: Sequence[str],
    *,
    texts: Mapping[str, str] = {},
    blocks: Mapping[str, str] = {},
    fields: Mapping[str, object] = {},
    written: Sequence[str] = (),
    **more: Any,
) -> Request:
    """Render the prompt of a file, or the template in the options that takes its place.

    ``texts`` are by place what comes from outside and stands between markers of the file;
    ``blocks`` the same by the name of its markers, which fill the place ``material``;
    ``fields`` by place what does not come from outside; ``written`` those texts that judges
    wrote, who may have seen another code; ``more`` other fields of the request, such as
    ``repeat`` and ``item``.
    """
    pool, options = shown.pool, shown.options
    query, instructions = shown_query(pool, options.show_query), options.instructions
    places = {"instructions": "", "unless": "", **fields}
    if instructions:
        block = f"\n{criteria_block('instructions', instructions)}\n"
        places = {"instructions": block, "unless": _UNLESS, **fields}
    system, user, starts = _rendered(
        choose_prompt(prompt, options),
        (("query", query), *texts.items()),
        tuple(blocks.items()),
        tuple(places.items()),
    )
    if getattr(options, "passages", None):  # which not all who ask have
        system += _PASSAGES
    return Request(
        judge=judge,
        system=system,
        user=user,
        response_model=verdict,
        query=pool.query,
        query_id=pool.query_id,
        documents=tuple(shown[doc_id] for doc_id in doc_ids),
        marks=(prompt, query, *written),
        prefix_ends=starts,
        **more,
    )


@lru_cache(4)  # all judges see the same two orders
def _rendered(
    prompt: PromptParts,
    texts: tuple[tuple[str, str], ...],
    blocks: tuple[tuple[str, str], ...],
    fields: tuple[tuple[str, object], ...],
) -> tuple[str, str, tuple[int, ...]]:
    """Render the system and user prompts, and where the user's shared parts end."""
    places = {**dict(fields), "code": CODE_PLACEHOLDER}
    places |= {name: _neutralize(text) for name, text in texts}
    places["material"] = _BETWEEN.join(delimit(name, _neutralize(text)) for name, text in blocks)
    filled = [part % places for part in prompt[1]]
    ends = accumulate(len(part) + len(_BETWEEN) for part in filled)
    return prompt[0] % places, _BETWEEN.join(filled), (0, *ends)[:-1]


@lru_cache(64)  # a document stands in many prompts of its pool
def _neutralize(text: str) -> str:
    """Return a text that cannot leave its markers, by their code or by a token of a model."""
    return break_special_tokens(text.replace(CODE_PLACEHOLDER, ""))


def shown_query(pool: Pool, names: Sequence[str]) -> str:
    """Return the query as judges and people see it, with those other fields that it has."""
    lines = (f"{name}: {text}" for name, text in _fields(pool, names).items())
    return "\n".join([pool.query, *lines])


def _fields(pool: Pool, names: Sequence[str]) -> dict[str, str]:
    """Return those of some fields of a query that are not empty, as texts."""
    texts = {name: text_for_judges(pool.about.get(name)) for name in names}
    return {name: text for name, text in texts.items() if text}


def shown_document(document: Document, pool: Pool, options: JudgingOptions) -> Document:
    """Return the document as judges of this query see it: whole, cut, or its best passages."""
    tokens, metadata = options.document_tokens, document.metadata
    names = [name for name in options.show_metadata if name in metadata]
    about, text = "".join(f"{name}: {metadata[name]}\n" for name in names), document.content
    if options.passages is not None:
        about, text = strip_passage_numbers(about), strip_passage_numbers(text)
        room = tokens * BYTES_PER_TOKEN - len(about.encode())
        if len(text.encode()) > room:
            # By what its fields say: their names are words of no query.
            query = "\n".join([pool.query, *_fields(pool, options.show_query).values()])
            # Nothing, where the metadata leaves no room.
            text = select_passages(text, query, options.passages * BYTES_PER_TOKEN, room) or text
    return replace(document, content=truncate_text(about + text, tokens * BYTES_PER_TOKEN))
