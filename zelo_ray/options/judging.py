"""Define the options of commands that ask models."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from zelo_ray.options.base import (
    FILES,
    JUDGING,
    MONEY,
    NO_FLAG,
    OTHERS,
    RUNNING,
    ReadingOptions,
    StrictModel,
)
from zelo_ray.options.places import Place, TextOrFile

Track = Annotated[
    tuple[str, ...],
    RUNNING,
    Field(
        description="log the finished run to trackers that the environment names: mlflow, wandb "
        "(docs/watch.md)"
    ),
]


class Limit(StrictModel):
    """Limits on the calls to one judge, over the whole cluster."""

    concurrency: int | None = Field(
        default=None, ge=1, description="calls in flight, at least 1 per actor"
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
        """Return the given limits per minute or day."""
        rates = {name: getattr(self, name) for name in ("rpm", "tpm", "itpm", "otpm", "rpd")}
        return {name: rate for name, rate in rates.items() if rate}


class Price(StrictModel):
    """Prices of a model, in US dollars per million tokens, or per thousand searches."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0, description="with hidden thinking")
    cached: float | None = Field(
        None, ge=0, description="input read from a cache; as input if None"
    )
    cache_write: float | None = Field(
        None, ge=0, description="as input if None, or 1.25 times as much at Anthropic"
    )
    batch: float = Field(default=0.5, ge=0, description="factor for what comes in a batch")
    search: float = Field(default=0.0, ge=0, description="of a reranker, for 1,000 search units")

    @model_validator(mode="after")
    def _says_what_it_costs(self) -> "Price":
        missing = {"input", "output"} - self.model_fields_set
        if missing and "search" not in self.model_fields_set:
            raise ValueError(f"{min(missing)}: is missing (or search, for a reranker)")
        return self


class AskingOptions(ReadingOptions):
    """Options of every command that asks models and writes to a directory."""

    out: Annotated[Place, FILES] = Field(
        description="directory or URL for the results and the ledger"
    )
    ledger: Annotated[Place | None, FILES] = Field(
        None,
        description="directory or URL of the ledger to use and extend, if not that of --out",
    )
    corpus: Annotated[Place | None, FILES] = Field(
        None,
        description="for a run or qrels as input: the documents (JSONL, TSV, CSV, Parquet, or a "
        "BEIR folder)",
    )
    queries: Annotated[Place | None, FILES] = Field(
        None,
        description="for a run or qrels as input: the queries, in the same formats, or TREC topics",
    )
    document_limit: Annotated[int | None, FILES] = Field(
        None, ge=2, description="take only the first N documents of each query"
    )
    show_metadata: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="metadata fields that models see"
    )
    show_query: Annotated[tuple[str, ...], JUDGING] = Field(
        (),
        description="fields of a query's line that models see beside its text, such as "
        "description narrative",
    )
    instructions: Annotated[TextOrFile | None, JUDGING] = Field(
        None,
        description="what counts as relevant for you: a file, a URL or the text itself (not for "
        "rerankers without a prompt)",
    )
    seed: Annotated[int, RUNNING] = Field(0, description="determines every random choice")
    attempts: Annotated[int, RUNNING, NO_FLAG] = Field(
        6, ge=1, description="calls for one request before it counts as failed"
    )
    reasks: Annotated[int, RUNNING, NO_FLAG] = Field(
        1, ge=0, description="further calls after an answer that cannot be parsed"
    )
    retry_failures: Annotated[bool, RUNNING] = Field(
        False,
        description="ask again where earlier runs got a refusal, or an answer that was filtered, "
        "cut off or unreadable",
    )
    max_usd: Annotated[float | None, MONEY] = Field(
        None, gt=0, description="what all runs on this --out may cost together, in US dollars"
    )
    timeout: Annotated[float, RUNNING, NO_FLAG] = Field(
        120.0, gt=0, description="seconds that one call may take"
    )
    patience: Annotated[float, RUNNING, NO_FLAG] = Field(
        43_200.0,
        gt=0,
        description="disable a judge after this many seconds without a response, or with nothing "
        "but 429s (at most 180 before its first answer); 12 hours by default, as an "
        "outage may last a night, and waiting costs one call a minute",
    )
    keep_asking: Annotated[bool, RUNNING, NO_FLAG] = Field(
        False,
        description="continue even if none of a judge's first 20 requests gave a judgment",
    )
    executor: Annotated[Literal["auto", "local", "ray"], RUNNING] = Field(
        "auto",
        description="where it runs: in this process, or on Ray, which is chosen for a cluster "
        "(RAY_ADDRESS), for rerankers that need GPUs, for several actors, and for large jobs",
    )
    actors: Annotated[int, RUNNING] = Field(1, ge=1, description="actors per provider or reranker")
    track: Track = ()
    verbose: Annotated[bool, RUNNING, NO_FLAG] = Field(
        False, description="show Ray's own log as well"
    )
    limits: Annotated[dict[str, Limit], MONEY] = Field(
        default_factory=dict,
        description="by judge or reranker: {concurrency: N} in flight, {rpm: N, tpm: N, itpm: N, "
        "otpm: N} a minute, {rpd: N} a day, {enqueued_tokens: N} in batches",
    )
    prices: Annotated[dict[str, Price], MONEY] = Field(
        default_factory=dict,
        description="by judge or reranker: {input: X, output: X, cached: X, cache_write: X}, "
        "dollars per million tokens, {search: X}, dollars per thousand searches, and "
        "{batch: X}, a factor",
    )
    api_key_env: Annotated[dict[str, str], RUNNING] = Field(
        default_factory=dict, description="by judge or reranker: the variable that holds its key"
    )

    @property
    def ledger_dir(self) -> str:
        """Return the directory or URL of the ledger, which also has the records of batches."""
        return self.ledger or self.out


class JudgingOptions(AskingOptions):
    """Options of every command that judges pools, with any protocol."""

    positional: ClassVar[tuple[str, ...]] = ("inputs",)

    inputs: Annotated[tuple[str, ...], FILES] = Field(
        min_length=1,
        description="files, directories, globs or URLs: pools as JSONL, tables of queries and "
        "documents, runs, BEIR and MTEB folders ... (docs/inputs.md)",
    )
    replace: Annotated[bool, FILES] = Field(
        False,
        description="replace the results of a finished run in this --out by those of another "
        "protocol, panel or option, or of fewer queries",
    )
    document_tokens: Annotated[int, JUDGING] = Field(
        2000, ge=16, description="tokens of a document that a model sees"
    )
    passages: Annotated[int | None, JUDGING, NO_FLAG] = Field(
        None,
        ge=32,
        description="tokens per passage: of a document longer than --document-tokens show the best "
        "passages, not the beginning",
    )
    judges: Annotated[tuple[str, ...], JUDGING] = Field(
        (),
        description="the panel, such as openai:gpt-6-luna, offline or my_module:PROVIDER:model; "
        "without it, the default model of each provider whose key is set",
    )
    judge_options: Annotated[dict[str, dict[str, Any]], JUDGING] = Field(
        default_factory=dict,
        description="by judge: options that change answers (temperature, max_output_tokens ...)",
    )
    blocks: Annotated[Literal["query", "session"], JUDGING] = Field(
        "query",
        description="what is judged: the documents of a query, or whole conversations (all pools "
        "of one session_id, joined)",
    )
    min_coverage: Annotated[float, JUDGING, NO_FLAG] = Field(
        0.5,
        ge=0,
        le=1,
        description="share of a query's (graded: a document's) requests that must give a judgment",
    )
    mode: Annotated[Literal["online", "batch"], RUNNING] = Field(
        "online", description="batch: through the batch API of each provider that has one"
    )
    batch_poll: Annotated[float, RUNNING, NO_FLAG] = Field(
        60.0, gt=0, description="longest time between two checks of a batch, in seconds"
    )
    dry_run: Annotated[bool, MONEY] = Field(
        False, description="estimate requests, tokens, dollars and hours, then stop"
    )
    allow_missing_judges: Annotated[bool, RUNNING] = Field(
        False, description="continue without a judge that is disabled (a wrong key, a spent quota)"
    )

    @model_validator(mode="after")
    def _passages_fit(self) -> Self:
        if self.passages and 2 * self.passages > self.document_tokens:
            raise ValueError(
                f"passages of {self.passages} tokens are more than half of document_tokens "
                f"({self.document_tokens}); give at most {self.document_tokens // 2}"
            )
        return self


class AnnotateOptions(JudgingOptions):
    """Options of `annotate`: judge pools by one protocol.

    A protocol's own options are a subclass of it.
    """

    usage: ClassVar[str] = "annotate INPUT... --out DIR [--judges J...]"

    protocol: Annotated[str, JUDGING] = Field("zelo", description="way of judging")
    pilot: Annotated[int | None, MONEY] = Field(
        None, ge=1, description="judge N queries only, then estimate the rest from what they used"
    )
    collect: Annotated[bool, RUNNING] = Field(
        False, description="ask nothing: build results from the answers that are recorded so far"
    )


class PromptOptions(AnnotateOptions):
    """Options of `prompt`: those of `annotate`, and what of the input to show."""

    usage: ClassVar[str] = "prompt INPUT... [--query ID] [--doc ID...] [--judges J...]"

    inputs: Annotated[tuple[str, ...], FILES] = Field(
        (), description="as annotate takes them; without any, those of the run of --out"
    )
    query: Annotated[str, OTHERS] = Field(
        "",
        description="query id or its beginning, or (part of) the query's text; without it, the "
        "first query",
    )
    doc: Annotated[tuple[str, ...], OTHERS] = Field(
        (),
        description="ids of documents: show the requests about one, or those that show several "
        "together; without it, one request of each judge and round",
    )
    body: Annotated[bool, OTHERS] = Field(
        False, description="print the body of each HTTP request alone, a line of JSON each"
    )
    out: Annotated[Place, FILES] = Field(
        "",
        description="directory or URL of a run: its replies tell what is asked in later rounds",
    )

    @model_validator(mode="after")
    def _is_of_some_input(self) -> Self:
        if not (self.inputs or self.out):
            raise ValueError("inputs: is missing, and so is the out of a run that has some")
        return self
