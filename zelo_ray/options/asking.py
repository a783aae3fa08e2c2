"""Define the options of every command that asks models."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from zelo_ray.options.command import (
    COLUMNS,
    FILES,
    JUDGING,
    MONEY,
    NO_FLAG,
    RUNNING,
    Columns,
    CommandOptions,
    Numbers,
)
from zelo_ray.options.places import Place, Words
from zelo_ray.options.tracking import Track


class Limit(Numbers):
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


class Price(Numbers):
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


class AskingOptions(CommandOptions):
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
    columns: Columns = Field((), description=COLUMNS)
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
    instructions: Annotated[Words | None, JUDGING] = Field(
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
