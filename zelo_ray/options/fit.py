"""Define the options of `fit`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.command import FILES, Columns, CommandOptions, OptionGroup
from zelo_ray.options.places import Place

_MODEL = OptionGroup("model")
_SHOWN = OptionGroup("what is shown")
_TEXT, _PARQUET = (".csv", ".tsv", ".json", ".jsonl"), ".parquet"
_KINDS = ", ".join((*_TEXT, _PARQUET))
_PACKED = (".gz", ".zst")


class FitOptions(CommandOptions):
    """Options of `fit`."""

    does: ClassVar[str] = "fit ratings to comparisons of any origin"
    usage: ClassVar[str] = "fit FILE [--out FILE]"
    positional: ClassVar[tuple[str, ...]] = ("source",)

    source: Annotated[Place, FILES] = Field(
        description="comparisons: JSON, CSV, TSV or Parquet of winner and loser; or of two "
        "items, such as a and b, with preference (-1 to 1, negative: a is better), winner, or "
        "a_wins and b_wins; votes.parquet of annotate"
    )
    columns: Columns = Field(
        (),
        description="columns with other names, as ROLE=NAME: query_id, judge, a, b, winner, loser, "
        "preference, a_wins, b_wins, ties, weight or swapped",
    )
    out: Annotated[Place | None, FILES] = Field(None, description=f"file for the scores: {_KINDS}")
    prior_sd: Annotated[float, _MODEL] = Field(
        2.5,
        ge=1e-6,
        le=1e6,
        description="standard deviation of the prior of a score, in logits",
    )
    mle: Annotated[bool, _MODEL] = Field(
        False, description="plain maximum likelihood, without a prior"
    )
    scale: Annotated[Literal["logits", "elo"], _SHOWN] = Field(
        "logits", description="elo: 400 points are odds of 10 to 1"
    )

    @field_validator("out")
    @classmethod
    def _can_be_written(cls, out: str | None) -> str | None:
        if out is not None and not format_of_file(out):
            raise ValueError(f"{out}: must end in one of {_KINDS}")
        return out

    @model_validator(mode="after")
    def _go_together(self) -> "FitOptions":
        if self.mle and "prior_sd" in self.model_fields_set:
            raise ValueError("use only one of mle and prior_sd")
        if self.out == self.source:
            raise ValueError(f"--out {self.out}: would overwrite the input")
        return self


def format_of_file(url: str) -> str:
    """Return the ending of a file's name that determines its format; "" if none does."""
    text = next((url.removesuffix(end) for end in _PACKED if url.endswith(end)), url)
    return next((kind for kind in _TEXT if text.endswith(kind)), "") or (
        _PARQUET if url.endswith(_PARQUET) else ""
    )
