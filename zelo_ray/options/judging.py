"""Define the options of every command that runs a panel of judges."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from zelo_ray.options.asking import AskingOptions
from zelo_ray.options.command import FILES, JUDGING, MONEY, NO_FLAG, RUNNING


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
