"""Define the nouns of the project as frozen dataclasses; all other modules exchange these."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import zip_longest
from math import nan
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)

from pydantic import BaseModel, ValidationError

from zelo_ray.request_key import hash_request, judge_prefix
from zelo_ray.wrapping import Wrap, unwrap_answer

Status = Literal["ok", "refused", "filtered", "truncated", "invalid", "failed", "blank"]
"""How a call ended. Only ``ok`` can become a judgment; ``failed``: no answer came at all;
``blank``: white space filled the answer up to its limit, as it would again. New ones come last, as
the index of a ledger numbers them."""


@dataclass(frozen=True, slots=True)
class Document:
    """A candidate for one query. Judges see ``metadata`` only with ``--show-metadata``."""

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


RequestPlan = Mapping[tuple[Any, ...], tuple[str, bool]]
"""The requests of a pool: by judge's name and `Request.item`, the key and ``swapped``."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One input line: a query and its candidates, whose ids are distinct.

    ``session_id`` names the conversation that the query is a turn of; empty for none. ``about`` has
    the query's further fields, such as a description; judges see them only with ``--show-query``.
    ``plan`` has the requests that it is known to lead to, which then need no prompt to be found.
    """

    query_id: str
    query: str
    documents: tuple[Document, ...]
    session_id: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    plan: RequestPlan = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges, with all options that can change its answers.

    Written ``openai:gpt-6-luna``, or ``openai:qwen3@http://host:8000/v1`` for a compatible server.
    """

    provider: str
    model: str
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    transport: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """options of transport alone; each is hashed into keys with one fixed value, so that changing
    it changes no key"""
    name: str = field(init=False, repr=False, compare=False)
    """the judge's name as users write it and output files show it"""
    key_prefix: bytes = field(init=False, repr=False, compare=False)
    """the part of the hashed text of a request's key that stands for the judge"""

    def __post_init__(self) -> None:
        who = (self.provider, self.model, self.base_url)
        plain = {**self.options, **self.transport}
        at = f"@{self.base_url}" if self.base_url else ""
        object.__setattr__(self, "name", f"{self.provider}:{self.model}{at}")
        object.__setattr__(self, "key_prefix", judge_prefix(*who, plain))


@runtime_checkable
class Prose(Protocol):
    """A response model (pydantic) whose answers are text in a form of its own, not JSON."""

    @classmethod
    def read(cls, text: str) -> Any:
        """Parse a text to an instance; a ValueError says why not, without the text."""

    def write(self) -> str:
        """Return the text that `read` parses to this instance; free judges answer with it."""


def response_model_name(model: type[BaseModel]) -> str:
    """Return the name of a response model in the record of a batch.

    A user's model may be called like one of this package, so its module is part of its name. After
    a colon are its ``PARAMETERS``, if it has any: texts of which its protocol builds it again.
    """
    home = model.__module__
    name = model.__name__ if home.startswith("zelo_ray.") else f"{home}.{model.__name__}"
    parameters: tuple[str, ...] = getattr(model, "PARAMETERS", ())
    return f"{name}:{','.join(parameters)}" if parameters else name


@cache
def response_schema(verdict: type[BaseModel]) -> dict[str, Any] | None:
    """Return the JSON schema that providers are sent; None for prose."""
    return None if isinstance(verdict, Prose) else verdict.model_json_schema()


@cache
def _written_schema(verdict: type[BaseModel]) -> bytes:
    return json.dumps(response_schema(verdict), sort_keys=True).encode()


V = TypeVar("V", bound=BaseModel)


@cache  # the check takes longer than parsing an answer
def _is_prose(verdict: type[BaseModel]) -> bool:
    return isinstance(verdict, Prose)


def read_response(verdict: type[V], text: str, *, parsed: bool = False) -> V | str:
    """Parse an answer like `read_response_and_wraps`; return the response, or why it is invalid."""
    return read_response_and_wraps(verdict, text, parsed=parsed)[0]


def read_response_and_wraps(
    verdict: type[V], text: str, *, parsed: bool = False
) -> tuple[V | str, tuple[Wrap, ...]]:
    """Parse an answer; return the response (or why it is invalid) and the wraps around it.

    A text that cannot be parsed as it is, is parsed without its wrapping (`unwrap_answer`). The
    order of fields does not matter; a field that is given twice must have the same value, which is
    not looked at again in a text that was ``parsed`` before. A number in quotes counts as the
    number (wrap ``quotes``) if it is digits with a sign or point.
    """
    outcome, quotes, may_be_wrapped = _read(verdict, text, parsed=parsed)
    inner = unwrap_answer(text, prose=_is_prose(verdict)) if may_be_wrapped else None
    if not inner:
        return outcome, quotes
    outcome, quotes, _ = _read(verdict, inner.text, parsed=parsed)
    return outcome, (*inner.wraps, *quotes)


def _read(verdict: type[V], text: str, *, parsed: bool) -> tuple[V | str, tuple[Wrap, ...], bool]:
    """Parse a text; return the response (or why it is invalid), ``quotes``, and whether to unwrap.

    JSON that does not fit the model is not searched further.
    """
    quotes: tuple[Wrap, ...] = ()
    try:
        if _is_prose(verdict):
            return cast("Any", verdict).read(text), (), False
        try:
            judgment = verdict.model_validate_json(text)
        except ValidationError as error:
            if not all(map(_is_quoted_number, error.errors(include_url=False))):
                raise
            judgment, quotes = verdict.model_validate_json(text, strict=False), ("quotes",)
        if not parsed:
            _decode(text)
    except _ContradictionError as error:
        return str(error), (), False
    except ValidationError as error:
        is_json = error.errors(include_url=False)[0]["type"] != "json_invalid"
        return first_error(error), (), _is_prose(verdict) or not is_json
    except ValueError as error:
        return str(error), (), True
    return judgment, quotes, False


class _ContradictionError(ValueError):
    """A JSON object gives one field two different values."""


def _one_value_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and any(fields[name] != value for name, value in pairs):
        raise _ContradictionError("a field is given twice, with different values")
    return fields


_decode = json.JSONDecoder(object_pairs_hook=_one_value_each).decode  # json.loads makes one


def _is_quoted_number(fault: Mapping[str, Any]) -> bool:
    pattern = {"int_type": r"[+-]?\d+", "float_type": r"[+-]?\d+(\.\d+)?"}.get(fault["type"])
    is_text = pattern is not None and type(fault["input"]) is str
    return is_text and bool(re.fullmatch(str(pattern), fault["input"], re.ASCII))


CODE_PLACEHOLDER: Final = "\0"
"""The placeholder for the code of a prompt's delimiters; no input text can contain it."""


def delimiter_code(*texts: str) -> str:
    """Return a code for delimiters: a hash of the texts, which therefore cannot contain it."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return digest[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticFeatures:
    """Features of a request's documents that free judges compute without reading the prompt.

    Documents are in the order in which the request shows them. The response model turns the
    features into an answer by its class method ``synthesize(seen)``.
    """

    pair_preference: float | None = None
    document_grade: int | None = None
    scores: tuple[float, ...] = ()
    """a score for each document, higher is better; empty if the judge has none"""
    words: str = ""
    """a reason, for fields of text"""
    argument: str = ""
    """an argument for one side; empty if the judge cannot argue"""
    covered: tuple[str, ...] = ()
    """the parts of the query that the one document covers"""
    missing: tuple[str, ...] = ()
    """the parts that it does not cover"""

    @property
    def preference(self) -> float:
        """Return which of two documents is better, from -1 (the first) to 1 (the second)."""
        if self.pair_preference is None:
            raise ValueError("a preference takes two documents")
        return self.pair_preference

    @property
    def grade(self) -> int:
        """Return the grade of one document: from 0, irrelevant, to 3, highly relevant."""
        if self.document_grade is None:
            raise ValueError("a grade takes one document")
        return self.document_grade


RECORDING: Final = "recording"
"""The option of a recorded judge that holds the digest of its recording."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one judge.

    ``response_model`` is what an answer must satisfy; providers are sent its schema. ``query`` and
    ``documents`` are what ``user`` was rendered from, for free judges, and are never sent.

    Where ``marks`` is given, both prompts contain `CODE_PLACEHOLDER` for the code of their
    delimiters. `with_codes` fills it in when the request is sent, from a secret salt that no input
    text can know. The key is of prompts with the placeholder, so it is the same in every ledger.
    """

    judge: Judge
    system: str
    user: str
    response_model: type[BaseModel]
    query: str = field(repr=False)
    documents: tuple[Document, ...] = field(repr=False)
    repeat: int = 0
    limit: int | None = None
    """Most tokens of the answer; None: as the judge's options say."""
    query_id: str = field(default="", repr=False)
    """Id of the query, by which recorded judges find their answer; it is never sent."""
    marks: tuple[str, ...] | None = field(default=None, repr=False)
    """Texts from which, with the salt, the code is hashed; None: the prompts have no code."""
    prefix_ends: tuple[int, ...] = field(default=(), repr=False)
    """Where prefixes of ``user`` end that other requests share, as offsets in characters."""
    key_override: str = field(default="", repr=False)
    """The key, if it is not to be computed from these prompts."""
    item: tuple[Any, ...] = field(default=(), repr=False)
    """Ids of its documents, and the repeat, by which a plan has it; empty: no plan has it."""
    swapped: bool = False
    """Whether it shows two documents in the other order; it is part of the plan, not of the key."""
    choices: tuple[str, ...] = field(default=(), repr=False)
    """Letters, one of which is the whole answer: one token is written, and the answer is the
    probability of each letter, as JSON; empty: the answer is text."""
    key: str = field(init=False)
    """A hash of everything that can change the answer: 32 hexadecimal digits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key_override or self._compute_key())

    def with_codes(self, salt: str) -> "Request":
        """Return the request as it is sent: with codes in its prompts, under the same key.

        The system prompt has the same code in all requests of one salt, so that it can be cached.
        """
        if self.marks is None:
            return self
        code = delimiter_code(salt, *self.marks)
        longer = len(code) - len(CODE_PLACEHOLDER)
        return replace(
            self,
            system=self.system.replace(CODE_PLACEHOLDER, delimiter_code(salt)),
            user=self.user.replace(CODE_PLACEHOLDER, code),
            prefix_ends=tuple(
                at + longer * self.user.count(CODE_PLACEHOLDER, 0, at) for at in self.prefix_ends
            ),
            marks=None,
            key_override=self.key,
        )

    @property
    def output_limit(self) -> int | None:
        """Return the most tokens that the answer may have, hidden ones included; None: no limit."""
        return 1 if self.choices else self.limit or self.judge.options.get("max_output_tokens")

    def _compute_key(self) -> str:
        parts: list[Any] = [_written_schema(self.response_model), b"%d" % self.repeat]
        truth = self.judge.options.get("truth")
        if isinstance(truth, str):  # a simulated judge sees this field of the metadata
            parts.append([document.metadata.get(truth) for document in self.documents])
        if RECORDING in self.judge.options:  # a recorded judge sees ids
            parts.append([self.query_id, *(document.id for document in self.documents)])
        if self.choices:
            parts.append({"choices": [*self.choices]})
        return hash_request(self.judge.key_prefix, self.system, self.user, *parts)


class PlannedRequest(NamedTuple):
    """A request that a pool's plan names: its reply can be found and read, but it has no prompts.

    ``swapped`` is as in `Request`.
    """

    judge: Judge
    key: str
    swapped: bool

    @classmethod
    def find(cls, pool: Pool, judge: Judge, *item: Any) -> "PlannedRequest | None":
        """Return the request about an item (`Request.item`), if the pool's plan has it."""
        entry = pool.plan.get((judge.name, *item))
        return cls(judge, *entry) if entry else None


AnyRequest = Request | PlannedRequest


def synthesize_answer(request: Request, seen: SyntheticFeatures) -> str:
    """Return the answer of a free judge as text, in the form of the response model."""
    synthesize: Callable[[SyntheticFeatures], BaseModel] | None = getattr(
        request.response_model, "synthesize", None
    )
    if synthesize is None:
        raise ValueError("its response model has no synthesize, so free judges cannot answer it")
    answer = synthesize(seen)
    if _is_prose(type(answer)):
        return cast("Prose", answer).write()
    return answer.model_dump_json()


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one call: tokens, and searches where a provider counts those.

    The next three are the parts of input and output that were read from a cache, written to one, or
    spent on hidden thinking. ``tier`` is the service tier, as the provider calls it;
    ``reported_dollars`` what the server says that the call has cost.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    searches: int = 0
    tier: str = field(default="", compare=False)
    reported_dollars: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Replace counts that are not numbers, as some servers send, by 0."""
        for name in _COUNTS:
            if type(value := getattr(self, name)) is not int or not 0 <= value < _MOST_COUNT:
                object.__setattr__(self, name, parse_count(value))

    @property
    def has_tokens(self) -> bool:
        """Return whether tokens were reported; if not, the cost of the call is unknown."""
        return bool(self.input_tokens or self.output_tokens)


_COUNTS = tuple(column.name for column in fields(Usage) if column.compare)
_MOST_COUNT = 2**53
_COUNT = re.compile(r"[0-9]{1,15}(?:\.0*)?")


def parse_count(value: object) -> int:
    """Parse a count as servers write it: ``100``, ``100.0`` or ``"100"``; 0 for anything else."""
    if type(value) is str and _COUNT.fullmatch(value):
        value = int(value.partition(".")[0])
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _MOST_COUNT else 0


def nested_object(value: object, *names: str) -> Mapping[str, Any]:
    """Return an object nested in a response; an empty one where it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class CallTiming:
    """The time that one call took, without any waiting before it.

    ``seconds`` is from sending, or the begin of a computation, to the answer; in ``load_seconds``
    a local model was loaded before. ``device`` computes it, if it is on this machine.
    ``in_flight`` counts the calls to this judge that ran meanwhile, with this one; 0: not known.
    """

    seconds: float
    load_seconds: float = 0.0
    device: str = ""
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's response to one call, which is billed, valid or not.

    ``rates`` are the account's limits that the response reported, requests or tokens a minute, by
    the name of the option of ``limits``: rpm, tpm, itpm, otpm.
    """

    status: Status
    text: str
    usage: Usage
    model: str = ""
    reason: str = ""
    rates: Mapping[str, float] = field(default_factory=dict, compare=False)
    has_unknown_ending: bool = field(default=False, compare=False)
    """whether the response ended with an unknown finish reason (in ``reason``); then it counts only
    if it can be parsed"""
    parsed: bool = field(default=False, compare=False)
    """whether it was parsed as its request's response model"""
    judge_fault: str = field(default="", compare=False)
    """why this judge can answer no such request until a person acts, although this one was billed;
    empty: others may be answered"""
    timing: CallTiming | None = field(default=None, compare=False)
    """how long the call took, where the connection knows it better than its caller, who also waits
    for a thread or a model that is loaded"""


class Reply(NamedTuple):
    """One row of the ledger: the reply to a request, and its cost.

    ``dollars`` is None where the model's price is unknown; ``received_at`` is ISO 8601 in UTC;
    ``attempts`` counts the calls made up to this row. A row that is not ``final`` was billed but
    could not be parsed, and the request was sent again. ``batch`` is the provider's id of its
    batch. ``searches`` is what some rerankers charge for instead of tokens. ``limit`` is the most
    tokens that the answer could have. ``parsed``: its fields are known to have one value each.
    ``seconds`` to ``in_flight`` are as in `CallTiming`; all are 0 or empty where not known.
    """

    key: str
    judge: str
    status: Status
    text: str
    reason: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    thinking_tokens: int
    dollars: float | None
    attempts: int
    received_at: str
    run_id: str
    final: bool = True
    batch: str = ""
    searches: int = 0
    limit: int = 0
    parsed: bool = False
    seconds: float = 0.0
    load_seconds: float = 0.0
    device: str = ""
    in_flight: int = 0
    prompt_characters: int = 0

    @classmethod
    def without_call(
        cls, key: str, judge: str, status: Status, *, text: str = "", reason: str = ""
    ) -> "Reply":
        """Return a row that no call was made for."""
        return cls(
            *(key, judge, status, text, reason),
            model="",
            input_tokens=0,
            output_tokens=0,
            cached_tokens=0,
            cache_write_tokens=0,
            thinking_tokens=0,
            dollars=0.0,
            attempts=0,
            received_at="",
            run_id="",
        )

    @property
    def truncated_at(self) -> int:
        """Return the limit, in tokens, at which the answer was cut off; 0 if it was not."""
        return (self.limit or self.output_tokens) if self.status == "truncated" else 0


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge's vote on a pair: ``preference`` from -1 (A is more relevant) to 1 (B is).

    ``swapped``: the judge saw B first, on which ``preference`` does not depend.
    """

    query_id: str
    doc_id_a: str
    doc_id_b: str
    judge: str
    preference: float
    swapped: bool
    reasoning: str
    key: str


@dataclass(frozen=True, slots=True)
class Grade:
    """One judge's grade of a document: 0 irrelevant, 1 marginal, 2 relevant, 3 highly relevant.

    Facets are the parts of the query's information need, as the judge sees them.
    """

    query_id: str
    doc_id: str
    judge: str
    grade: int
    facets_covered: tuple[str, ...]
    facets_missing: tuple[str, ...]
    rationale: str
    key: str


@dataclass(frozen=True, slots=True)
class CriterionGrade:
    """One judge's grade of a document by one criterion: from 0, not met, to 3, met fully."""

    query_id: str
    doc_id: str
    judge: str
    criterion: str
    grade: int
    reason: str
    key: str


TIE: Final = "tie"
"""The value of ``winner_id`` for a tie."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One judge's decision on a match of best-of: king on the left, challenger on the right.

    ``swapped``: the judge saw the challenger as Answer 1. ``winner_id`` may be `TIE`; ``king_id``
    is the king after the match, which is the left one unless the right one won. A tournament is
    one judge and ``repeat`` of a query.
    """

    session_id: str
    query_id: str
    judge: str
    repeat: int
    round: int
    """from 1"""
    left_id: str
    right_id: str
    winner_id: str
    confidence: float
    """as the judge states it, 0 to 1"""
    verdict: str
    reasoning: str
    swapped: bool
    king_id: str
    key: str

    @property
    def preference(self) -> float:
        """Return the judge's preference, as in a `Vote`: negative if left won, 0 for a tie."""
        return float(self.winner_id == self.right_id) - float(self.winner_id == self.left_id)


@dataclass(frozen=True, slots=True)
class Winner:
    """The winner of a tournament."""

    session_id: str
    query_id: str
    judge: str
    repeat: int
    winner_id: str
    contests: int


Side = Literal["model_a", "model_b", "tie"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's decision on two answers, over all rounds of a debate or of a repeated question.

    Pairs of values are (for A, for B); ``swapped``: the judge saw B first. Where both orders were
    asked there are two rows with the same ``winner``: if they disagree they are ``flipped``, and it
    is a tie. ``score_history`` to ``reasoning`` have an entry a round, where a method has them.
    """

    query_id: str
    doc_id_a: str
    doc_id_b: str
    method: str
    judge: str
    winner: Side
    average_scores: tuple[float, ...]
    rounds: int
    score_history: tuple[tuple[float, ...], ...]
    arguments: tuple[tuple[str, ...], ...]
    feedback: tuple[str, ...]
    reasoning: tuple[str, ...]
    swapped: bool
    flipped: bool
    keys: tuple[str, ...]
    """the keys of all replies behind it, in the order of the requests"""

    @property
    def preference(self) -> float:
        """Return the judge's preference, as in a `Vote`: negative if A won, 0 for a tie."""
        return float(self.winner == "model_b") - float(self.winner == "model_a")

    def by_round(self) -> Iterator[tuple[tuple[float, ...], tuple[str, ...], str, str]]:
        """Yield scores, arguments, feedback and reasoning of each round; empty where missing."""
        columns = (self.score_history, self.arguments, self.feedback, self.reasoning)
        for scores, arguments, feedback, reasoning in zip_longest(*columns):
            yield scores or (), arguments or (), feedback or "", reasoning or ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request without a judgment, and the reason."""

    query_id: str
    doc_ids: tuple[str, ...]
    judge: str
    status: Status
    reason: str
    attempts: int
    key: str


@dataclass(frozen=True, slots=True)
class Score:
    """The fitted score of one document.

    ``score`` is in logits, centred on the mean of the query's judged documents; errors are in
    logits, too. ``std_error`` is the standard error if the same panel answered again;
    ``truth_error`` that about people, which includes errors that all judges share; NaN where
    unknown. ``comparisons`` counts the votes behind the score; ``rank`` starts at 1.
    """

    query_id: str
    doc_id: str
    score: float
    std_error: float
    comparisons: int
    rank: int
    truth_error: float = field(default=nan, kw_only=True)


@dataclass(frozen=True, slots=True)
class GradedScore(Score):
    """A document's score from the grades of a panel.

    ``score`` and ``std_error`` are the mean of the judges' grades and its error, or of what
    the grade may be, given how each judge grades. ``disagreement`` is the mean difference of two
    judges' grades; ``ambiguous``: it is too large for the grade to be trusted.
    """

    grade: int
    """the nearest whole grade, 0 to 3"""
    median: float
    disagreement: float
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class AbsoluteScore(Score):
    """A score from votes, and the same on one scale for all queries, which a few grades anchor.

    Both are in logits; the absolute score is NaN where the query has no grades.
    """

    absolute_score: float
    absolute_error: float


@dataclass(frozen=True, slots=True)
class CrownedScore(Score):
    """A score from matches; ``crowned`` is the share of tournaments that the document won."""

    crowned: float


@dataclass(frozen=True, slots=True)
class Rater:
    """A judge's way of grading, compared with its panel.

    ``severity`` is how much more relevant than for the panel a document must be for the same grade,
    in standard deviations of relevance; ``spread`` is the standard deviation of its error on that
    scale, infinite for a judge that grades at random; ``weight`` its share of the panel's
    information, NaN for a person. NaN also where too few judges agree to tell which of them errs.
    """

    judge: str
    severity: float
    severity_error: float
    spread: float
    spread_error: float
    weight: float
    grades: int


@dataclass(frozen=True, slots=True)
class Share:
    """A mean over all judged documents: by the panel alone, and corrected by people's labels.

    ``measure`` is ``grade`` for the mean grade, or ``>=1``, ``>=2``, ``>=3`` for the share of
    documents of at least that grade. ``mean``, ``low`` and ``high`` are the corrected ones.
    """

    measure: str
    panel: float
    mean: float
    low: float
    high: float
    documents: int
    humans: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """One line of a run: the score of a document by a ranker; higher is better."""

    query_id: str
    doc_id: str
    score: float


@dataclass(frozen=True, slots=True)
class Qrel:
    """One line of the truth: the relevance of a document, with its standard error.

    ``relevance`` is a grade or a score in logits. ``std_error`` is the error about people where
    scores have one (``truth_error``), else that about the panel; NaN where neither is known.
    """

    query_id: str
    doc_id: str
    relevance: float
    std_error: float


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of a measure for one query of a run; NaN where it is not defined."""

    run: str
    query_id: str
    measure: str
    value: float


Estimate = Literal["panel", "graded", "people", "corrected", "cost"]
"""The source of a figure: the panel; the panel's scores taken as grades; people who labelled some
documents; the panel as corrected by people's labels; or, for what a ranking takes in time and
money, the clock and the prices."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a measure over the queries of the truth, with its interval."""

    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int
    """the number of queries on which it is defined"""
    estimate: Estimate = "panel"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared on the queries that both answered: how far A is above B, and p-values.

    ``p`` is of a two-sided paired t-test, ``p_holm`` corrected over the table; ``p_better`` is
    the probability that A's mean over all queries of this kind is above B's; ``p_labels`` the share
    of draws of the labels in which it is so on these, NaN where labels have no errors. ``family``
    names the families of judges without which a significant difference is none; "" for none.
    """

    run_a: str
    run_b: str
    measure: str
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    p_better: float
    p_labels: float
    queries: int
    wins: int
    ties: int
    losses: int
    estimate: Estimate = "panel"
    family: str = ""


_OWN_WORDS = {"missing": "is missing", "extra_forbidden": "is unknown"}
"""By kind of an error of pydantic, what is said of the field."""


def first_error(error: ValidationError) -> str:
    """Describe the first error of a validation in one line, without the value in question."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"]).lstrip(".")
    message = _OWN_WORDS.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    if first["type"] not in ("value_error", "assertion_error"):
        message = re.sub(r"^\w+ should ", "must ", message)
    return f"{place}: {message}" if place else message
