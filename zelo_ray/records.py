"""The nouns of the project, as frozen dataclasses. Everything else takes and returns these."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import zip_longest
from math import nan
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from zelo_ray.identity import key_of, opening
from zelo_ray.wrapping import Wrap, unwrapped

Status = Literal["ok", "refused", "filtered", "truncated", "invalid", "failed"]
"""How a call ended. Only ``ok`` can become a judgment; ``failed``: no answer came at all."""


@dataclass(frozen=True, slots=True)
class Document:
    """A candidate for one query. ``metadata`` is never shown to a judge unless asked for."""

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pool:
    """One input line: a query and its candidates, whose ids are distinct.

    ``session_id`` names the conversation that the query is a turn of; empty for none. ``about`` is
    what else the line says of the query, such as a description; no judge sees it unless asked for.
    """

    query_id: str
    query: str
    documents: tuple[Document, ...]
    session_id: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges, and all the options that can change its answers.

    Written ``openai:gpt-6-luna``, or ``openai:qwen3@http://host:8000/v1`` for a compatible server.
    """

    provider: str
    model: str
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    transport: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """options that say how an answer travels and not what it says, each with the value under which
    it stands in every key"""
    name: str = field(init=False, repr=False, compare=False)
    """the judge as a user writes it, and as every output file names it"""
    opening: bytes = field(init=False, repr=False, compare=False)
    """what of it stands in the keys of its requests"""

    def __post_init__(self) -> None:
        who = (self.provider, self.model, self.base_url)
        plain = {**self.options, **self.transport}
        at = f"@{self.base_url}" if self.base_url else ""
        object.__setattr__(self, "name", f"{self.provider}:{self.model}{at}")
        object.__setattr__(self, "opening", opening(*who, plain))


@runtime_checkable
class Prose(Protocol):
    """A verdict (a pydantic model) that is answered in a text of its own form, not in JSON."""

    @classmethod
    def read(cls, text: str) -> Any:
        """Read the verdict that a text holds.

        Raises:
            ValueError: it holds none; the message says why, without the text.
        """

    def write(self) -> str:
        """Write a text that holds the verdict; made-up judges answer so."""


def model_name(model: type[BaseModel]) -> str:
    """Return the name by which the record of a batch calls the model of its answers.

    One of the user's may be called as one of this package is: then its module tells them apart.
    """
    home = model.__module__
    return model.__name__ if home.startswith("zelo_ray.") else f"{home}.{model.__name__}"


@cache
def response_schema(verdict: type[BaseModel]) -> dict[str, Any] | None:
    """Return the JSON schema of an answer, as providers are sent it; None for prose."""
    return None if isinstance(verdict, Prose) else verdict.model_json_schema()


@cache
def _written_schema(verdict: type[BaseModel]) -> bytes:
    return json.dumps(response_schema(verdict), sort_keys=True).encode()


V = TypeVar("V", bound=BaseModel)


@cache  # to look takes longer than to read a verdict
def _is_prose(verdict: type[BaseModel]) -> bool:
    return isinstance(verdict, Prose)


def read_response(verdict: type[V], text: str) -> V | str:
    """Read the verdict that an answer's text holds, or why it holds none; see `read_wrapped`."""
    return read_wrapped(verdict, text)[0]


def read_wrapped(verdict: type[V], text: str) -> tuple[V | str, tuple[Wrap, ...]]:
    """Read the verdict that an answer's text holds, or why it holds none; and what was around it.

    What cannot be read as it stands is read without its wrapping (`unwrapped`). The order of fields
    does not count; a field that is given twice must have one value. A number in quotes counts as
    the number (``quotes``), if it is digits, perhaps with a sign and a point, and nothing else.
    """
    if _is_prose(verdict):
        return _read_prose(verdict, text)
    outcome, quotes, is_json = _read(verdict, text)
    if is_json or not (inner := unwrapped(text)):
        return outcome, quotes
    outcome, quotes, _ = _read(verdict, inner.text)
    return outcome, (*inner.wraps, *quotes)


def _read_prose(verdict: Any, text: str) -> tuple[Any, tuple[Wrap, ...]]:
    """Read an answer in a form of its own."""
    try:
        return verdict.read(text), ()
    except ValueError as error:
        reason = _reason(error)
    if not (inner := unwrapped(text, prose=True)):
        return reason, ()
    try:
        return verdict.read(inner.text), inner.wraps
    except ValueError as error:
        return _reason(error), inner.wraps


def _reason(error: ValueError) -> str:
    return first_error(error) if isinstance(error, ValidationError) else str(error)


def _read(verdict: type[V], text: str) -> tuple[V | str, tuple[Wrap, ...], bool]:
    """Read JSON; return the verdict or why there is none, its quotes, and whether it is JSON.

    JSON that holds no verdict is not looked into further.
    """
    quotes: tuple[Wrap, ...] = ()
    try:
        try:
            judgment = verdict.model_validate_json(text)
        except ValidationError as error:
            if (unquoted := _unquoted(error, text)) is None:
                raise
            judgment, quotes = verdict.model_validate_json(unquoted), ("quotes",)
        json.loads(text, object_pairs_hook=_one_value_each)
    except ValidationError as error:
        what = error.errors(include_url=False, include_context=False)[0]["type"]
        return first_error(error), (), what != "json_invalid"
    except _ContradictionError as error:
        return str(error), (), True
    return judgment, quotes, True


class _ContradictionError(ValueError):
    """An object that gives one field two values."""


def _one_value_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make the fields of an object one mapping.

    Raises:
        _ContradictionError: a field has two values.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs) and any(fields[name] != value for name, value in pairs):
        raise _ContradictionError("a field is given twice, with different values")
    return fields


_QUOTED_NUMBER = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]+)?)")
_NO_NUMBER = ("float_type", "int_type")


def _unquoted(error: ValidationError, text: str) -> str | None:
    """Write JSON without quotes around its numbers; None if that is not all that is wrong."""
    wrong = error.errors(include_url=False, include_context=False)
    if any(fault["type"] not in _NO_NUMBER or type(fault["input"]) is not str for fault in wrong):
        return None
    answer = {"": json.loads(text)}
    for fault in wrong:
        number = _QUOTED_NUMBER.fullmatch(fault["input"])
        *path, name = ("", *fault["loc"])
        place: Any = answer
        try:
            for step in path:
                place = place[step]
            if number is None or place[name] != fault["input"]:
                return None
        except (LookupError, TypeError):  # a model of the user's own, whose path is none of JSON
            return None
        sign, digits = number.groups()
        place[name] = (float if "." in digits else int)(sign + digits)
    return json.dumps(answer[""])


CODE: Final = "\0"
"""Stands in a prompt where its code is to stand; no text of the input can hold it."""


def code_for(*texts: str) -> str:
    """Return a code for delimiters that none of the texts holds: a hash of the texts."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return digest[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticFeatures:
    """A free judge's opinion of a request's documents, computed without reading prose.

    Documents come in the order in which the request shows them. What becomes of it says the model
    that an answer must satisfy, by a class method ``synthesize(seen)`` that returns such an answer.
    """

    of_two: float | None = None
    of_one: int | None = None
    scores: tuple[float, ...] = ()
    """a score for each document, higher is better; empty if the judge has none"""
    words: str = ""
    """why, for a field of text"""
    argument: str = ""
    """what it would say for a side; empty if it cannot argue"""
    covered: tuple[str, ...] = ()
    """of one document: what of the query it covers"""
    missing: tuple[str, ...] = ()
    """and what it does not"""

    @property
    def lean(self) -> float:
        """Return which of two documents is better, in [-1, 1]; negative: the first.

        Raises:
            ValueError: there are not two.
        """
        if self.of_two is None:
            raise ValueError("it leans only where there are two documents")
        return self.of_two

    @property
    def grade(self) -> int:
        """Return the grade of one document: from 0, irrelevant, to 3, highly relevant.

        Raises:
            ValueError: there is not one.
        """
        if self.of_one is None:
            raise ValueError("it grades only where there is one document")
        return self.of_one


RECORDING: Final = "recording"
"""The option of a recorded judge that holds the digest of its recording."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one judge.

    ``response_model`` is the pydantic model that an answer must satisfy; its JSON schema is what
    providers are sent. ``query`` and ``documents`` are the material that ``user`` was rendered
    from: free judges use them, and they are never sent anywhere. Those answer
    as the model's ``synthesize`` says (`SyntheticFeatures`); where it has none they cannot.

    Where ``marks`` is given, `CODE` stands in both prompts for the code of their delimiters. It is
    put in when the request is sent (`marked`), from a salt that no text of the input can know. So
    the key, which is of the prompts without it, holds in every ledger.
    """

    judge: Judge
    system: str
    user: str
    response_model: type[BaseModel]
    query: str = field(repr=False)
    documents: tuple[Document, ...] = field(repr=False)
    repeat: int = 0
    limit: int | None = None
    """Tokens that this call may answer with; None: as many as the judge's options say."""
    query_id: str = field(default="", repr=False)
    """Whose ``query`` it is: recorded judges look it up; nobody is sent it."""
    marks: tuple[str, ...] | None = field(default=None, repr=False)
    """What the code in ``user`` follows from, beside the salt; None: the prompts hold no `CODE`."""
    starts: tuple[int, ...] = field(default=(), repr=False)
    """Where in ``user`` beginnings end, in characters, that others have as well; 0: its begin."""
    known_as: str = field(default="", repr=False)
    """The key, where it is not that of these prompts."""
    reask: int = field(default=0, repr=False)
    """How many answers to it could not be read; no part of the key."""
    key: str = field(init=False)
    """A hash of everything that can change the answer: 32 hexadecimal digits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.known_as or self._made_key())

    def marked(self, salt: str) -> "Request":
        """Return the request as it is sent: its prompts with their codes, under the same key.

        The system prompt has the same code in all requests of a salt, so that caches may keep it.
        """
        if self.marks is None:
            return self
        code = code_for(salt, *self.marks)
        longer = len(code) - len(CODE)
        return replace(
            self,
            system=self.system.replace(CODE, code_for(salt)),
            user=self.user.replace(CODE, code),
            starts=tuple(at + longer * self.user.count(CODE, 0, at) for at in self.starts),
            marks=None,
            known_as=self.key,
        )

    @property
    def output_limit(self) -> int | None:
        """Return how many tokens the answer may have, with hidden ones; None: no limit."""
        return self.limit or self.judge.options.get("max_output_tokens")

    def _made_key(self) -> str:
        parts: list[Any] = [_written_schema(self.response_model), b"%d" % self.repeat]
        truth = self.judge.options.get("truth")
        if isinstance(truth, str):  # a simulated judge sees this field of the metadata
            parts.append([document.metadata.get(truth) for document in self.documents])
        if RECORDING in self.judge.options:  # a recorded judge sees ids
            parts.append([self.query_id, *(document.id for document in self.documents)])
        return key_of(self.judge.opening, self.system, self.user, *parts)


def written(request: Request, seen: SyntheticFeatures) -> str:
    """Return a free judge's answer as text, in the form that the request wants.

    Raises:
        ValueError: it cannot answer this.
    """
    synthesize: Callable[[SyntheticFeatures], BaseModel] | None = getattr(
        request.response_model, "synthesize", None
    )
    if synthesize is None:
        raise ValueError("nothing says how a free judge would answer it")
    answer = synthesize(seen)
    return answer.write() if isinstance(answer, Prose) else answer.model_dump_json()


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one call: tokens, and searches where a provider counts those.

    ``input_tokens`` and ``output_tokens`` are inclusive totals; the next three say how much of them
    was read from a cache, written to one, or spent on hidden thinking. ``tier`` is the service tier
    that served it, in the provider's word; empty where that is not told.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    searches: int = 0
    tier: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Replace a count that is no number, as some servers send, by 0: no answer is lost."""
        for name in _COUNTS:
            object.__setattr__(self, name, count_of(getattr(self, name)))

    @property
    def told(self) -> bool:
        """Return whether there are tokens: without them the cost of a call is unknown."""
        return bool(self.input_tokens or self.output_tokens)


_COUNTS = tuple(column.name for column in fields(Usage) if column.name != "tier")
_COUNT = re.compile(r"[0-9]{1,15}(?:\.0*)?")


def count_of(value: object) -> int:
    """Read a count as servers write it: ``100``, ``100.0`` or ``"100"``; 0 where it is none."""
    if type(value) is str and _COUNT.fullmatch(value):
        value = int(value.partition(".")[0])
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**53 else 0


def part_of(value: object, *names: str) -> Mapping[str, Any]:
    """Return an object within a response; empty where there is none, so that no answer is lost."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's response to one call, which is billed, good or not.

    ``rates`` are the account's limits as the response told them: by the name of an option of
    ``limits`` (rpm, tpm, itpm, otpm), requests or tokens a minute.
    """

    status: Status
    text: str
    usage: Usage
    model: str = ""
    reason: str = ""
    rates: Mapping[str, float] = field(default_factory=dict, compare=False)
    doubtful: bool = field(default=False, compare=False)
    """whether it ended by a word that nobody knows, which is the reason: it is an answer only if
    it can be read"""


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of the ledger: what came back for a request, and what it cost.

    ``dollars`` is None where the model's price is unknown; ``received_at`` is ISO 8601 in UTC;
    ``attempts`` counts the calls made up to this row; ``run_id`` names the run that paid. A row
    that is not ``final`` was billed, but could not be read, and was to be asked again. ``batch``
    is the provider's id of the batch that it came in; empty for a call of its own. ``searches``
    counts what some rerankers charge for instead of tokens. ``limit`` is how many tokens the answer
    could have; 0 where that is not known.
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

    @property
    def cut_at(self) -> int:
        """Return the limit at which the answer was cut off; 0 if it was not."""
        return (self.limit or self.output_tokens) if self.status == "truncated" else 0


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge's word on one pair. ``preference`` lies in [-1, 1]; negative: A is more relevant.

    ``swapped`` tells that the judge saw B first; ``preference`` is already turned back.
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
    """One judge's word on one document: 0 irrelevant, 1 marginal, 2 relevant, 3 highly relevant.

    The facets are parts of what the query asks for, as the judge sees them.
    """

    query_id: str
    doc_id: str
    judge: str
    grade: int
    facets_covered: tuple[str, ...]
    facets_missing: tuple[str, ...]
    rationale: str
    key: str


TIE: Final = "tie"
"""Stands where a winner would."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One judge's word on a challenge: the king on the left, who challenges on the right.

    ``swapped`` tells that the judge saw the right one as Answer 1. ``winner_id`` may be `TIE`;
    ``king_id`` reigns after the contest, which is the left one unless the right one won. A query's
    tournaments differ by judge and ``repeat``; of one that the panel decides together, every judge
    has rows of the same rounds, and they have the same king.
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
    """the judge's own, 0 to 1"""
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
    """The winner of a tournament. ``judge`` is ``panel`` where the panel decided it together."""

    session_id: str
    query_id: str
    judge: str
    repeat: int
    winner_id: str
    contests: int


PANEL = "panel"
"""Whose word it is where the panel decides together."""

Side = Literal["model_a", "model_b", "tie"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on two answers, over all rounds: of a debate, or of a repeated question.

    Pairs are (for A, for B), whichever the judge saw first; ``swapped`` tells that it was B. Where
    both orders were asked there are two rows, and ``winner`` is the word of both: if they differ
    they are ``flipped``, and it is a tie. ``score_history``, ``arguments``, ``feedback`` and
    ``reasoning`` have an entry a round, or none where a method has no such thing.
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
    """of all replies that it rests on, in the order in which they were asked"""

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
    """One request that gave no judgment, and why."""

    query_id: str
    doc_ids: tuple[str, ...]
    judge: str
    status: Status
    reason: str
    attempts: int
    key: str


@dataclass(frozen=True, slots=True)
class Score:
    """The fit's word on one document.

    ``score`` is in logits, centred on the mean of the query's judged documents, and so are both
    errors. ``std_error`` tells how far another draw of the same panel's answers might lie,
    ``truth_error`` what people might say: it has besides what the judges get wrong together; NaN
    where neither is known. ``comparisons`` counts the votes that it rests on; ``rank`` starts at 1.
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

    ``score`` and ``std_error`` are the mean and standard deviation of the document's grade, given
    what the judges said and how each of them grades; ``comparisons`` counts the grades. ``median``
    may lie between two grades; ``disagreement`` is the mean difference of two judges' grades, NaN
    with fewer than two, and ``ambiguous`` says that it is too wide to be trusted.
    """

    grade: int
    """the calibrated one, 0 to 3"""
    median: float
    majority: int
    disagreement: float
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class AbsoluteScore(Score):
    """A score of pairwise battles, and the same on one scale for all queries, by a few grades.

    Both are in logits; NaN where the query has no grades.
    """

    absolute_score: float
    absolute_error: float


@dataclass(frozen=True, slots=True)
class CrownedScore(Score):
    """A score of contests; ``crowned`` is the share of the tournaments that the document won."""

    crowned: float


@dataclass(frozen=True, slots=True)
class Rater:
    """A judge's way of grading, compared with its panel.

    ``severity`` is how much higher than for the panel a document's relevance must be for the same
    grade, in standard deviations of relevance, positive: harsher. ``spread`` is the standard
    deviation of its error on the same scale, so infinite for a judge that grades at random.
    ``weight`` is its share of what the panel's grades tell, summing to 1; NaN for a human. Where
    too few judges agree to tell who errs, spread and weight are NaN.
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
    """A mean over all judged documents: by the panel alone, and set right by human labels.

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
class Consensus:
    """The share of people's verdicts that agree with a panel's, by how far its judges agree.

    ``about`` is ``votes`` for pairs by votes, ``orders`` for pairs by the order of their grades,
    and ``grades`` for documents, on the ``scale`` (``0-3``, ``>=2``; empty for pairs). ``level`` is
    how far judges agree, or ``all``. ``share`` is of all pairs or documents that the panel and
    people judged. ``same`` is of ``items``: the pairs that people do not tie; ``tied`` are left
    out. The interval is over queries.
    """

    about: str
    scale: str
    level: str
    share: float
    same: float
    low: float
    high: float
    items: int
    tied: int
    queries: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """One line of a run: the score that a reranker gave a document; higher is better."""

    query_id: str
    doc_id: str
    score: float


@dataclass(frozen=True, slots=True)
class Qrel:
    """One line of the truth: how relevant a document is, and how sure that is.

    ``relevance`` is a grade or a score in logits. ``std_error`` is its error about people where
    scores have one (``truth_error``), else that of the panel's word; NaN where neither is known.
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


Estimate = Literal["panel", "graded", "people", "corrected"]
"""Whose word a figure is: the panel's; the panel's scores taken as grades; that of people who
labelled some documents; or the panel's as their labels correct it."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a measure over the queries of the truth, with its interval."""

    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int
    """on how many queries it is defined"""
    estimate: Estimate = "panel"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on the queries that both answered: by how much, and how sure, A is above B.

    ``p`` is of the paired randomisation test, two-sided; ``p_holm`` is corrected over the whole
    table; ``p_better`` is the chance that A's mean over all queries of this kind is above B's,
    given these; ``p_labels`` the share of draws of the labels in which it is so for these queries,
    NaN where labels have no errors. ``kin`` names the families of judges without which a difference
    that is sure is not; empty if there is none.
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
    kin: str = ""


def first_error(error: ValidationError) -> str:
    """Describe the first error that pydantic found, in one line, without the text in question."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"]).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {message}{more}" if place else f"{message}{more}"
