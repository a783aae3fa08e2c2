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
    firth: Annotated[bool, _MODEL] = Field(
        False, description="without a prior, with Firth's correction of the bias"
    )
    ties: Annotated[Literal["half", "davidson"], _MODEL] = Field(
        "half", description="half: a tie is half a win for each; davidson: an outcome of its own"
    )
    order_effect: Annotated[bool, _MODEL] = Field(
        False, description="fit the advantage of the first position (home advantage, position bias)"
    )
    control: Annotated[Literal["length"] | None, _MODEL] = Field(
        None,
        description="length: beside the scores, those that remain when a coefficient of length is "
        "fitted to all queries together",
    )
    texts: Annotated[tuple[Place, ...], FILES] = Field(
        (),
        description="with control: the documents whose length counts: pools, or a corpus by id; "
        "without it, those beside the votes of a run",
    )
    games: Annotated[Literal["rows", "pairs"] | None, _MODEL] = Field(
        None,
        description="rows: each row is a game; pairs: all judges' votes on a pair are one game; "
        "without it, pairs if the columns are doc_id_a and doc_id_b",
    )
    reference: Annotated[str | None, _SHOWN] = Field(
        None, description="item whose score is 0; errors are then of differences to it"
    )
    scale: Annotated[Literal["logits", "elo"], _SHOWN] = Field(
        "logits", description="elo: 400 points are odds of 10 to 1"
    )
    offset: Annotated[float | None, _SHOWN] = Field(
        None,
        allow_inf_nan=False,
        description="score of the mean item, or of the reference (0; of elo 1000)",
    )

    @field_validator("out")
    @classmethod
    def _can_be_written(cls, out: str | None) -> str | None:
        if out is not None and not format_of_file(out):
            raise ValueError(f"{out}: must end in one of {_KINDS}")
        return out

    @model_validator(mode="after")
    def _go_together(self) -> "FitOptions":
        methods = [name for name in ("mle", "firth") if getattr(self, name)]
        methods += ["prior_sd"] if "prior_sd" in self.model_fields_set else []
        if len(methods) > 1:
            raise ValueError(f"use only one of {' and '.join(methods)}")
        if self.texts and not self.control:
            raise ValueError("texts: needs control, which they are for")
        others = {
            "mle": self.mle,
            "firth": self.firth,
            "order_effect": self.order_effect,
            "ties": self.ties != "half",
            "reference": self.reference is not None,
        }
        if self.control and (other := next((name for name, is_on in others.items() if is_on), "")):
            raise ValueError(f"control: cannot be combined with {other}")
        if self.out == self.source:
            raise ValueError(f"--out {self.out}: would overwrite the input")
        return self


def format_of_file(url: str) -> str:
    """Return the ending of a file's name that determines its format; "" if none does."""
    text = next((url.removesuffix(end) for end in _PACKED if url.endswith(end)), url)
    return next((kind for kind in _TEXT if text.endswith(kind)), "") or (
        _PARQUET if url.endswith(_PARQUET) else ""
    )
