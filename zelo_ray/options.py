"""The options of a job: one definition for flags, YAML and environment variables.

A field is the flag ``--field-name``, the YAML key ``field_name`` and the variable
``ZELO_RAY_FIELD_NAME``; where several speak, the flag wins over the variable, and it over the file.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_origin

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from zelo_ray.records import first_error

PREFIX = "ZELO_RAY_"


class OptionError(Exception):
    """The options make no sense; the message is one line that says which and why."""


def meant(word: str, known: Iterable[str]) -> str:
    """What a word that nobody knows may have been meant to be, as the end of a line."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class Limit(BaseModel):
    """What one judge may be asked at a time, over the whole cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int | None = Field(
        default=None, ge=1, description="calls in flight, at least 1 an actor"
    )
    rpm: float | None = Field(default=None, gt=0, description="requests a minute")
    tpm: float | None = Field(default=None, gt=0, description="tokens a minute")
    itpm: float | None = Field(default=None, gt=0, description="input tokens a minute")
    otpm: float | None = Field(default=None, gt=0, description="output tokens a minute")
    rpd: float | None = Field(default=None, gt=0, description="requests a day")
    enqueued_tokens: int | None = Field(
        default=None, gt=0, description="tokens of all batches at once"
    )

    @property
    def rates(self) -> dict[str, float]:
        """The limits by time that are given."""
        found = {name: getattr(self, name) for name in ("rpm", "tpm", "itpm", "otpm", "rpd")}
        return {name: rate for name, rate in found.items() if rate}


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens, or a thousand searches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0, description="with hidden thinking")
    cached: float | None = Field(
        None, ge=0, description="input read from a cache; as input if None"
    )
    cache_write: float | None = Field(default=None, ge=0, description="as input if None")
    batch: float = Field(default=0.5, ge=0, description="factor for what comes in a batch")
    search: float = Field(default=0.0, ge=0, description="of a reranker, for 1,000 search units")

    @model_validator(mode="after")
    def _says_what_it_costs(self) -> "Price":
        missing = {"input", "output"} - self.model_fields_set
        if missing and "search" not in self.model_fields_set:
            raise ValueError(f"{min(missing)}: Field required (or search, for a reranker)")
        return self


class Asking(BaseModel):
    """What every command that asks models and writes to a directory can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: str = Field(min_length=1, description="directory or URL for the results and the ledger")
    ledger: str | None = Field(
        None,
        min_length=1,
        description="directory or URL whose ledger is used and extended, if not that of --out",
    )
    document_limit: int | None = Field(
        None, ge=2, description="take only the first N documents of each query"
    )
    show_metadata: tuple[str, ...] = Field((), description="metadata fields that models see")
    seed: int = Field(0, description="every random choice follows from it")
    attempts: int = Field(6, ge=1, description="calls for one request before it counts as failed")
    reasks: int = Field(1, ge=0, description="further calls after an answer that cannot be read")
    retry_failures: bool = Field(
        False,
        description="ask again what earlier runs saw refused, filtered, cut off, unreadable",
    )
    max_usd: float | None = Field(
        None, gt=0, description="what all runs on this --out may cost together, in US dollars"
    )
    timeout: float = Field(120.0, gt=0, description="seconds that one call may take")
    patience: float = Field(
        180.0,
        gt=0,
        description="seconds in which a judge may give no answer, or 429s alone, before it is "
        "given up",
    )
    actors: int = Field(1, ge=1, description="actors for each provider or reranker")
    verbose: bool = Field(False, description="show the log of Ray as well")
    limits: dict[str, Limit] = Field(
        default_factory=dict,
        description="by judge or reranker: {concurrency: N} in flight, {rpm: N, tpm: N, itpm: N, "
        "otpm: N} a minute, {rpd: N} a day, {enqueued_tokens: N} in batches",
    )
    prices: dict[str, Price] = Field(
        default_factory=dict,
        description="by judge or reranker: {input: X, output: X, cached: X, cache_write: X}, "
        "dollars for a million tokens, {search: X}, dollars for a thousand searches, and "
        "{batch: X}, a factor",
    )
    api_key_env: dict[str, str] = Field(
        default_factory=dict, description="by judge or reranker: the variable that holds its key"
    )

    @property
    def books(self) -> str:
        """Where the ledger lies, and what is on its way to it."""
        return self.ledger or self.out

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        many = get_origin(field.annotation) is tuple
        return (value,) if many and isinstance(value, str) else value


class Options(Asking):
    """Options of `annotate`. Frozen; unknown keys are refused."""

    inputs: tuple[str, ...] = Field(
        min_length=1, description="JSONL files, directories, globs or URLs (.jsonl, .gz, .zst)"
    )
    protocol: str = Field("zelo", description="way of judging")
    document_tokens: int = Field(2000, ge=16, description="tokens of a document that a model sees")
    judges: tuple[str, ...] = Field(
        (),
        description="the panel, such as openai:gpt-6-luna or offline; "
        "without it, the default model of each provider whose key is set",
    )
    cycles: int = Field(4, ge=1, description="random cycles of battles for each query")
    repeats: int = Field(
        1, ge=1, description="ask every question N times (pairs in both orders), to see who wavers"
    )
    anchors: str = Field(
        "web", description="worked examples for grades: a built-in domain, a file or a URL"
    )
    pooling: Literal["thurstone", "beta", "median", "majority"] = Field(
        "thurstone", description="how a panel's grades become one"
    )
    human: str | None = Field(
        None, description="a few human grades (qrels) that anchor the panel's scale"
    )
    ambiguous: float = Field(
        1.5, gt=0, description="mean difference of two judges' grades that marks a split panel"
    )
    grades: int = Field(5, ge=1, description="grades for each query in zelo+graded")
    blocks: Literal["query", "session"] = Field(
        "query",
        description="what is judged: the answers to a query, or whole conversations: all pools of "
        "one session_id, joined",
    )
    criteria: str | None = Field(
        None, min_length=1, description="what best-of judges by; without it, a list of its own"
    )
    decide: Literal["each", "panel"] = Field(
        "each", description="best-of: a tournament for each judge, or one by the panel's majority"
    )
    order: Literal["input", "random", "zelo"] = Field(
        "input",
        description="best-of: who is king first and who challenges next; zelo: by zELO score, the "
        "best first (asks its battles, too)",
    )
    rounds: int | Literal["samre"] | None = Field(
        None,
        description="samre: rounds at most (4 if not given); baseline-strong: times to ask (1), or "
        "samre: as often as its debate on the same answers took",
    )
    both_orders: bool = Field(
        False,
        description="samre, baselines: judge with either answer first; if the winner flips it is a "
        "tie",
    )
    structured: bool = Field(False, description="baseline-strong: answers as JSON, not as text")
    mode: Literal["online", "batch"] = Field(
        "online", description="batch: through the batch API of each provider that has one"
    )
    batch_poll: float = Field(
        60.0, gt=0, description="longest seconds between two looks at a batch"
    )
    dry_run: bool = Field(False, description="estimate requests, tokens, dollars, hours; then stop")
    pilot: int | None = Field(
        None, ge=1, description="judge N queries only, then estimate the rest from what they used"
    )
    allow_missing_judges: bool = Field(
        False, description="go on without a judge that has to stop (a wrong key, a spent quota)"
    )
    prior_sd: float = Field(2.5, gt=0, description="prior standard deviation of a score, in logits")
    min_coverage: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of a query's (graded: a document's) requests that must give a judgment",
    )
    judge_options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="by judge: what changes its answers (temperature, max_output_tokens ...)",
    )

    @field_validator("rounds", mode="before")
    @classmethod
    def _rounds_are_some(cls, value: Any) -> Any:
        if value in (None, "samre") or (str(value).isdecimal() and int(value) > 0):
            return value
        raise ValueError("a number from 1 on, or samre")


class BakeoffOptions(Asking):
    """Options of `bakeoff`. Frozen; unknown keys are refused."""

    truth: str = Field(
        min_length=1,
        description="what is relevant: the --out of annotate, annotated.jsonl, scores.parquet, "
        "TREC qrels, or a BEIR directory",
    )
    pools: tuple[str, ...] = Field(
        (),
        description="JSONL files with the documents that rerankers order; without it, those that "
        "the truth holds",
    )
    rerankers: tuple[str, ...] = Field(
        (),
        description="such as original, bm25, cohere:rerank-v4.0-pro, cross-encoder:PATH, "
        "listwise:openai:gpt-6-luna, my_module:MyClass; NAME=... to name one",
    )
    document_tokens: int | None = Field(
        None,
        ge=16,
        description="tokens of a document that a reranker sees; all, but 2,000 for listwise and "
        "pointwise",
    )
    runs: tuple[str, ...] = Field(
        (), description="runs made elsewhere: TREC, runs.parquet, or annotated JSONL"
    )
    measures: tuple[str, ...] = Field(
        (), description="as ir_measures writes them, the first leads; what fits the truth if none"
    )
    ties: Literal["trec", "expected"] = Field(
        "trec",
        description="equal scores: trec, by document id, descending; expected, the mean over all "
        "orders",
    )
    resamples: int = Field(10_000, ge=100, description="of queries, for intervals and tests")
    label_draws: int = Field(
        200, ge=0, description="of the labels, where the truth has standard errors"
    )
    confidence: float = Field(0.95, gt=0, lt=1, description="of intervals")
    slices: tuple[str, ...] = Field((), description="fields of a query to show results by")
    write_annotated: bool = Field(False, description="write the pools with each arm's scores, too")
    reranker_options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="by reranker: what changes its scores (a constructor's arguments ...)",
    )
    num_gpus: dict[str, float] = Field(
        default_factory=dict, description="by reranker: GPUs for each of its actors"
    )


class TrialsOptions(Options):
    """Options of `protocols`. Frozen; unknown keys are refused."""

    protocols: tuple[str, ...] = Field(
        (), description="ways of judging to compare; without it all of them, but zelo+graded"
    )
    human: str = Field(
        min_length=1, description="what people say: votes on pairs of documents, or qrels"
    )
    people: str | None = Field(
        None, min_length=1, description="of the people those of such a name, as expert*"
    )
    turn: int | None = Field(None, description="of FastChat's judgments those of this turn")
    max_usd: float | None = Field(
        None, gt=0, description="what each protocol may cost over all runs, in US dollars"
    )
    resamples: int = Field(1000, ge=100, description="of queries, for intervals")

    @model_validator(mode="after")
    def _compares(self) -> "TrialsOptions":
        if "protocol" in self.model_fields_set:
            raise ValueError("protocol: several are compared: name them with --protocols")
        if self.pilot is not None:
            raise ValueError("pilot: protocols are compared on all that people labelled")
        return self


Kind = TypeVar("Kind", bound=Asking)
_HINTS: Mapping[type[Asking], str] = {
    Options: "zelo-ray annotate INPUT... --out DIR [--judges J...], or --help",
    BakeoffOptions: "zelo-ray bakeoff --truth FILE --rerankers R... --out DIR, or --help",
    TrialsOptions: "zelo-ray protocols INPUT... --human FILE --out DIR [--judges J...], or --help",
}


def _from_variable(kind: type[Asking], name: str, text: str) -> Any:
    """A mapping or a bracketed list is read as YAML; pydantic reads everything else."""
    many = get_origin(kind.model_fields[name].annotation)
    if many is dict or (many is tuple and text.lstrip().startswith("[")):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            why = " ".join(str(error).split())
            raise OptionError(f"{PREFIX}{name.upper()} is no YAML: {why}") from None
    return text


def load_options(
    kind: type[Kind], flags: Mapping[str, Any], environ: Mapping[str, str], config: str = ""
) -> Kind:
    """Merge the text of a YAML file, the environment and flags into a command's options.

    Raises:
        OptionError: the text is no YAML, or an option is unknown or out of range.
    """
    try:
        merged = yaml.safe_load(config) or {}
    except yaml.YAMLError as error:
        raise OptionError(f"the config file is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(merged, dict):
        raise OptionError("the config file must hold lines of option: value")
    _refuse_unknown_variables(environ)
    for name in kind.model_fields:
        if text := environ.get(f"{PREFIX}{name.upper()}"):
            merged[name] = _from_variable(kind, name, text)
    merged |= flags
    try:
        return kind.model_validate(merged)
    except ValidationError as error:
        what = _unknown(kind, error) or first_error(error)
        raise OptionError(f"{what}; {_HINTS[kind]}") from None


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """A variable that no command knows is a typo; that of another command is none."""
    known = {f"{PREFIX}{name.upper()}" for kind in _HINTS for name in kind.model_fields}
    for name, text in environ.items():
        if name.startswith(PREFIX) and text and name not in known:
            raise OptionError(f"{name}: no option of any command{meant(name, known)}")


def _unknown(kind: type[Asking], error: ValidationError) -> str:
    """Which name nobody knows, and which it may have been meant to be; empty if that is not it."""
    first = error.errors(include_input=False, include_url=False)[0]
    if first["type"] != "extra_forbidden":
        return ""
    *path, name = map(str, first["loc"])
    inner: dict[str, type[BaseModel]] = {"limits": Limit, "prices": Price}
    model = inner[path[0]] if path else kind
    known = model.model_fields
    return f"{'.'.join([*path, name])}: no such option{meant(name, known)}"
