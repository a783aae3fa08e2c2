"""Define the options of every command that runs a panel of judges."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from zelo_ray.options.asking import AskingOptions
from zelo_ray.options.command import FILES, JUDGING, MONEY, RUNNING


class JudgingOptions(AskingOptions):
    """Options of every command that judges pools, whatever the protocol."""

    positional: ClassVar[tuple[str, ...]] = ("inputs",)

    inputs: Annotated[tuple[str, ...], FILES] = Field(
        min_length=1,
        description="files, directories, globs or URLs: pools as JSONL, tables of queries and "
        "documents, runs, BEIR and MTEB folders ... (docs/inputs.md)",
    )
    replace: Annotated[bool, FILES] = Field(
        False,
        description="replace the results of a finished run on this --out by others: of another "
        "protocol, panel or option, or of fewer queries",
    )
    document_tokens: Annotated[int, JUDGING] = Field(
        2000, ge=16, description="tokens of a document that a model sees"
    )
    passages: Annotated[int | None, JUDGING] = Field(
        None,
        ge=32,
        description="tokens of a passage: a longer document than --document-tokens is shown by its "
        "best passages, not by its beginning",
    )
    judges: Annotated[tuple[str, ...], JUDGING] = Field(
        (),
        description="the panel, such as openai:gpt-6-luna, offline or my_module:PROVIDER:model; "
        "without it, the default model of each provider whose key is set",
    )
    judge_options: Annotated[dict[str, dict[str, Any]], JUDGING] = Field(
        default_factory=dict,
        description="by judge: what changes its answers (temperature, max_output_tokens ...)",
    )
    blocks: Annotated[Literal["query", "session"], JUDGING] = Field(
        "query",
        description="what is judged: the answers to a query, or whole conversations (all pools "
        "of one session_id, joined)",
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

    @model_validator(mode="after")
    def _passages_fit(self) -> Self:
        if self.passages and 2 * self.passages > self.document_tokens:
            raise ValueError(
                f"passages of {self.passages} tokens are more than half of what is shown, the "
                f"{self.document_tokens} of document_tokens; give passages of "
                f"{self.document_tokens // 2} at most"
            )
        return self
