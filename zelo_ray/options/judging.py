"""What every command that runs a panel of judges can be told."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from zelo_ray.options.asking import AskingOptions
from zelo_ray.options.command import FILES, JUDGING, MONEY, RUNNING
from zelo_ray.options.places import FileText


class JudgingOptions(AskingOptions):
    """Options of every command that judges pools, and all that a protocol is told."""

    positional: ClassVar[tuple[str, ...]] = ("inputs",)

    inputs: Annotated[tuple[str, ...], FILES] = Field(
        min_length=1, description="JSONL files, directories, globs or URLs (.jsonl, .gz, .zst)"
    )
    document_tokens: Annotated[int, JUDGING] = Field(
        2000, ge=16, description="tokens of a document that a model sees"
    )
    judges: Annotated[tuple[str, ...], JUDGING] = Field(
        (),
        description="the panel, such as openai:gpt-6-luna or offline; "
        "without it, the default model of each provider whose key is set",
    )
    judge_options: Annotated[dict[str, dict[str, Any]], JUDGING] = Field(
        default_factory=dict,
        description="by judge: what changes its answers (temperature, max_output_tokens ...)",
    )
    cycles: Annotated[int, JUDGING] = Field(
        4, ge=1, description="random cycles of battles for each query"
    )
    repeats: Annotated[int, JUDGING] = Field(
        1,
        ge=1,
        description="ask every question N times (pairs in both orders), to see who wavers",
    )
    anchors: Annotated[FileText, JUDGING] = Field(
        "web", description="worked examples for grades: a built-in domain, a file or a URL"
    )
    pooling: Annotated[Literal["thurstone", "beta", "median", "majority"], JUDGING] = Field(
        "thurstone", description="how a panel's grades become one"
    )
    ambiguous: Annotated[float, JUDGING] = Field(
        1.5, gt=0, description="mean difference of two judges' grades that marks a split panel"
    )
    grades: Annotated[int, JUDGING] = Field(
        5, ge=1, description="grades for each query in zelo+graded"
    )
    blocks: Annotated[Literal["query", "session"], JUDGING] = Field(
        "query",
        description="what is judged: the answers to a query, or whole conversations (all pools "
        "of one session_id, joined)",
    )
    criteria: Annotated[str | None, JUDGING] = Field(
        None, min_length=1, description="what best-of judges by; without it, a list of its own"
    )
    decide: Annotated[Literal["each", "panel"], JUDGING] = Field(
        "each", description="best-of: a tournament for each judge, or one by the panel's majority"
    )
    order: Annotated[Literal["input", "random", "zelo"], JUDGING] = Field(
        "input",
        description="best-of: who is king first and who challenges next; zelo: by zELO score, the "
        "best first (asks its battles, too)",
    )
    rounds: Annotated[int | Literal["samre"] | None, JUDGING] = Field(
        None,
        description="samre: rounds at most (4 if not given); baseline-strong: times to ask (1), or "
        "samre: as often as its debate on the same answers took",
    )
    both_orders: Annotated[bool, JUDGING] = Field(
        False,
        description="samre, baselines: judge with either answer first; if the winner flips, it is "
        "a tie",
    )
    structured: Annotated[bool, JUDGING] = Field(
        False, description="baseline-strong: answers as JSON, not as text"
    )
    prior_sd: Annotated[float, JUDGING] = Field(
        2.5, gt=0, description="prior standard deviation of a score, in logits"
    )
    min_coverage: Annotated[float, JUDGING] = Field(
        0.5,
        ge=0,
        le=1,
        description="share of a query's (graded: a document's) requests that must give a judgment",
    )
    mode: Annotated[Literal["online", "batch"], RUNNING] = Field(
        "online", description="batch: through the batch API of each provider that has one"
    )
    batch_poll: Annotated[float, RUNNING] = Field(
        60.0, gt=0, description="longest seconds between two looks at a batch"
    )
    dry_run: Annotated[bool, MONEY] = Field(
        False, description="estimate requests, tokens, dollars and hours, then stop"
    )
    allow_missing_judges: Annotated[bool, RUNNING] = Field(
        False, description="go on without a judge that has to stop (a wrong key, a spent quota)"
    )

    @field_validator("rounds", mode="before")
    @classmethod
    def _rounds_are_some(cls, value: Any) -> Any:
        if value in (None, "samre") or (str(value).isdecimal() and int(value) > 0):
            return value
        raise ValueError("a number from 1 on, or samre")
