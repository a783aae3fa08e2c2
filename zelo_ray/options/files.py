"""Define the options of commands that make files of files: `fit` and `convert`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.base import FILES, OptionGroup, ReadingOptions
from zelo_ray.options.places import Place

_MODEL = OptionGroup("model")
_SHOWN = OptionGroup("what is shown")
_TEXT, _PARQUET = (".csv", ".tsv", ".json", ".jsonl"), ".parquet"
_KINDS = ", ".join((*_TEXT, _PARQUET))
_PACKED = (".gz", ".zst")


class FitOptions(ReadingOptions):
    """Options of `fit`."""

    usage: ClassVar[str] = "fit FILE [--out FILE]"
    positional: ClassVar[tuple[str, ...]] = ("source",)

    source: Annotated[Place, FILES] = Field(
        description="comparisons: JSON, CSV, TSV or Parquet of winner and loser; or of two "
        "items, such as a and b, with preference (-1 to 1, negative: a is better), winner, or "
        "a_wins and b_wins; votes.parquet of annotate"
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


_FROM = "the --out of annotate, annotated.jsonl, or BEIR or MTEB data"
OPTIONS_OF_FORMAT: Mapping[str, tuple[str, ...]] = {
    "pool": ("source", "corpus", "queries", "runs", "depth", "qrels"),
    "unjudged": ("truth", "runs", "depth", "pools", "corpus", "queries", "all"),
    "qrels": ("source", "grades", "cut", "without_ambiguous"),
    "train": (
        *("source", "form", "pools", "without_ambiguous", "min_gap", "per_query", "splits", "seed"),
    ),
    "run": ("source",),
    "beir": ("source", "pools", "cut"),
}
"""By output format, the options that it takes besides ``what`` and ``out``."""
_REQUIRED: Mapping[str, tuple[str, ...]] = {"pool": (), "unjudged": ("truth", "runs")}
"""By output format, the required options; ``source`` for formats not listed here."""


class ConvertOptions(ReadingOptions):
    """Options of `convert`."""

    usage: ClassVar[str] = "convert WHAT SOURCE --out FILE"
    positional: ClassVar[tuple[str, ...]] = ("what", "source")

    what: Literal["pool", "unjudged", "qrels", "train", "run", "beir"] = Field(
        description="pool: pools to annotate, from a collection or from several runs; unjudged: "
        "unjudged documents at the top of runs, as pools to annotate; qrels: TREC "
        "qrels; train: examples to train a reranker or embedder on; "
        "run: a TREC run; beir: a BEIR directory"
    )
    source: Place = Field("", description=f"{_FROM}; for run, a run as well")
    truth: Place = Field("", description=f"judgments: {_FROM}, or TREC qrels")
    corpus: Place | None = Field(
        None, description="documents: JSON lines, lines id<TAB>text, or a BEIR directory"
    )
    queries: Place | None = Field(None, description="queries, in the same formats")
    runs: tuple[Place, ...] = Field((), description="TREC runs, or runs.parquet of a bake-off")
    depth: int | None = Field(
        None, ge=1, description="how deep to look into runs (pool: 100, unjudged: 10)"
    )
    qrels: Place | None = Field(
        None, description="judgments, whose documents are added to the pools"
    )
    pools: tuple[Place, ...] = Field(
        (), description="JSON lines of pools with the texts, if they are elsewhere"
    )
    all: bool = Field(False, description="also write the pools without unjudged documents")
    grades: bool = Field(False, description="write the panel's whole grade rather than its mean")
    cut: tuple[float, ...] = Field(
        (),
        description="lowest absolute scores of grades 1, 2 ...; absolute scores are on one scale "
        "for all queries",
    )
    without_ambiguous: bool = Field(
        False, description="leave out documents on which the panel disagrees"
    )
    seed: int = Field(0, description="determines every random choice")
    form: Literal["rows", "pairs", "lists", "triplets"] = Field(
        "rows",
        description="of examples to train on. rows: a query, a document and its relevance; pairs: "
        "two documents and the chance that the first is better; lists: a query with all its "
        "documents and targets from 0 to 1; triplets: a better and a worse document",
    )
    min_gap: float | None = Field(
        None,
        ge=0,
        description="smallest gap between the documents of a triplet, in standard errors of the "
        "gap (2), or in points of relevance where judgments have no errors (1)",
    )
    per_query: int = Field(
        0, ge=0, description="how many pairs or triplets of a query to draw, or 0 for all"
    )
    splits: tuple[float, ...] = Field(
        (80, 10, 10),
        description="shares of queries to train, to choose and to test on, where --out is a "
        "directory",
    )
    out: Place = Field(description="where to write, a path or URL; .gz and .zst are compressed")

    @model_validator(mode="after")
    def _fit_together(self) -> "ConvertOptions":
        applicable = {"what", "out", "columns", *OPTIONS_OF_FORMAT[self.what]}
        if strange := sorted(self.model_fields_set - applicable):
            raise ValueError(f"{strange[0]}: is not an option of convert {self.what}")
        for name in _REQUIRED.get(self.what, ("source",)):
            if not getattr(self, name):
                raise ValueError(f"{name}: is required by convert {self.what}")
        if self.grades and self.cut:
            raise ValueError("use either grades or cut")
        if list(self.cut) != sorted(set(self.cut)):
            raise ValueError("cut: must ascend")
        if len(self.splits) != 3 or min(self.splits) < 0 or sum(self.splits) <= 0:
            raise ValueError("splits: takes three shares, such as 80 10 10")
        return self
