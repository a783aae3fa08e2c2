"""Predict the tokens of a call before it is made: the most it can take, and the likely number."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import orjson
from pydantic import BaseModel

from zelo_ray.providers import PROVIDERS, is_reranker
from zelo_ray.providers.extra_body import thinking_budget
from zelo_ray.providers.registry import PROMPTLESS_PROVIDERS
from zelo_ray.records import Judge, Request, Usage, response_schema

_REPEATED = re.compile(r"\s+|([^\w\s])\1+")  # of which some tokenizers make a single token
_LEARNING = 0.05  # weight of a new reply in what the estimates learn
OVERHEAD = 20  # tokens of a request beside its texts
_FEW = 10  # answers of a kind that tell how long they get, the surer the more there are
_SURE, _UNSURE = 1.1, 8.0  # times the longest: the former, and of the latter a share for each
_CUT_OFF = 0.02  # of the answers of a kind: where more are cut off, they have no usual length
_SHORTEST = 64  # tokens: no limit is set below
_DEARER = 1.25  # times as many tokens as prompts were seen to take, where that is beyond the bound
# A word that stands alone, with the space before it: no tokenizer in use takes more than a token
# for two of its letters. Whatever else there is may take one for each byte.
_WORD = re.compile(rb" ?(?<![A-Za-z0-9_\x80-\xff])[A-Z]?[a-z]+(?![A-Za-z0-9_\x80-\xff])")
_FIRST_OUTPUT = 300.0  # tokens of an answer, before the first has come
# Cohere charges a search for a query with up to 100 documents, and has counted each part of a long
# one as a document: parts of 500 tokens, query included, of which it may take half.
_SEARCH, _PART = 100, 500


class RequestSize(int):
    """Bytes of a request, as they are charged."""

    searches = 0
    """the most that a reranker may charge for it"""


@dataclass(slots=True)
class _Kind:
    """The lengths of a judge's answers of one kind of verdict."""

    answers: int = 0
    cut: int = 0
    longest: int = 0


class Estimates:
    """Tokens of one judge's calls before they are made, learned from those that were.

    A token is about four bytes of UTF-8 in most languages and less in JSON and code; how many it is
    for this model and these prompts the replies tell.
    """

    def __init__(self, judge: Judge) -> None:
        limit = judge.options.get("max_output_tokens")
        self._limit = int(limit or judge.options.get("output_tokens") or 4096)
        if is_reranker(judge.provider):  # they write nothing
            self._limit = 0
        self._shortest = _SHORTEST + thinking_budget(judge.options)
        self._per_byte = 1.3 / 4
        self._output = min(_FIRST_OUTPUT, self._limit)
        self._kinds = defaultdict[str, _Kind](_Kind)
        self._beyond: float | None = None
        self._prompts, self._bound = list[int](), 0.0

    def expected(self, size: float) -> Usage:
        """Return the expected usage of a call of so many bytes, as far as is known."""
        return Usage(math.ceil(size * self._per_byte) + OVERHEAD, math.ceil(self._output))

    def upper_bound(self, size: float, limit: int | None = None) -> Usage:
        """Return a usage that no call exceeds: a token per byte, the output limit, the searches."""
        searches = getattr(size, "searches", 0)
        return Usage(math.ceil(size) + OVERHEAD, limit or self._limit, searches=searches)

    def tight_upper_bound(self, size: float, bound: int, limit: int) -> Usage:
        """Return such a usage, lower once prompts have been counted; see `bound_tokens`."""
        if self._beyond is None:
            return self.upper_bound(size, limit)
        tokens = min(size, math.ceil(max(1.0, _DEARER * self._beyond) * bound))
        return Usage(math.ceil(tokens) + OVERHEAD, limit)

    def limit_for(self, kind: str, cut_at: int = 0) -> int:
        """Return the output limit that a kind of answer needs, a little above the longest so far.

        It was cut off at ``cut_at`` before; 0: it was not.
        """
        tally = self._kinds[kind]
        if cut_at or tally.answers < _FEW or tally.cut > max(3, _CUT_OFF * tally.answers):
            return self._limit if cut_at < self._limit else 2 * cut_at
        margin = _SURE + _UNSURE / tally.answers
        return min(self._limit, max(self._shortest, math.ceil(margin * tally.longest)))

    def learn(self, size: float, usage: Usage, kind: str = "", *, cut: bool = False) -> None:
        """Take in what a call of so many bytes has used; rerankers tell of input alone."""
        if usage.input_tokens:
            per_byte = (usage.input_tokens - OVERHEAD) / size
            self._per_byte += _LEARNING * (max(0.05, per_byte) - self._per_byte)
        if usage.output_tokens:
            self._output += _LEARNING * (usage.output_tokens - self._output)
            tally = self._kinds[kind]
            tally.answers, tally.cut = tally.answers + 1, tally.cut + cut
            tally.longest = max(tally.longest, usage.output_tokens)

    def learn_prompts(self, tokens: Sequence[int], bound: float) -> None:
        """Take in how many tokens prompts took, which together may be so many at most.

        A few of them are learned from together.
        """
        if bound and all(tokens):
            self._prompts += tokens
            self._bound += bound
        if len(self._prompts) >= _FEW:
            self._beyond = max(self._beyond or 0.0, sum(self._prompts) / self._bound)
            self._prompts, self._bound = [], 0.0


def bound_tokens(request: Request) -> int:
    """Return the most tokens that a request's prompt takes in any tokenizer in use."""
    instructions = _instruction_tokens(request.system, request.response_model)
    return instructions + _tokens_at_most(request.user)


@lru_cache(64)
def _instruction_tokens(system: str, verdict: type[BaseModel]) -> int:
    schema = orjson.dumps(response_schema(verdict)).decode()
    return _tokens_at_most(system) + _tokens_at_most(schema)


def _tokens_at_most(text: str) -> int:
    data = text.encode(errors="replace")
    return len(data) - sum(len(word) // 2 for word in _WORD.findall(data))


def measure_request(request: Request) -> RequestSize:
    """Return the bytes of a request's texts and schema; rerankers charge the query per document."""
    size = _bytes(request.system) + _bytes(request.user) + _schema_size(request.response_model)
    if not is_reranker(request.judge.provider):
        return RequestSize(size)
    query = _bytes(request.query)
    charged = RequestSize(size + (query + OVERHEAD) * (len(request.documents) - 1))
    room = max(_PART // 2, _PART - query)
    parts = sum(max(1, -(-_bytes(document.content) // room)) for document in request.documents)
    charged.searches = max(1, -(-parts // _SEARCH))
    return charged


def prompt_characters(request: Request) -> int:
    """Return the characters of a prompt, of which a token has few; 0 where tokens tell nothing.

    Runs of blanks, or of one sign such as the dots of a table of contents, are one. Rerankers and
    judges without a prompt, or of a provider of the user's own, count in their own way.
    """
    provider = request.judge.provider
    if provider not in PROVIDERS or provider in PROMPTLESS_PROVIDERS:
        return 0
    return sum(len(_REPEATED.sub(" ", text)) for text in (request.system, request.user))


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


@cache
def _schema_size(verdict: type[BaseModel]) -> int:
    return len(orjson.dumps(response_schema(verdict)))
