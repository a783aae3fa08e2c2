"""Options of `convert`."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from zelo_ray.options.command import CommandOptions
from zelo_ray.options.places import Place

_FROM = "the --out of annotate, annotated.jsonl, or BEIR or MTEB data"
TAKES: Mapping[str, tuple[str, ...]] = {
    "pool": ("source", "corpus", "queries", "runs", "depth", "qrels"),
    "holes": ("truth", "runs", "depth", "pools", "corpus", "queries", "all"),
    "qrels": ("source", "grades", "cut", "without_ambiguous", "decimals"),
    "train": ("source", "pools", "without_ambiguous"),
    "run": ("source", "name"),
    "beir": ("source", "pools", "decimals"),
    "mteb": ("source", "pools", "positive"),
    "fastchat": ("source", "answers", "votes", "pairs", "seed", "labels_out"),
    "llamahub": ("source", "pairs", "seed", "labels_out"),
}
"""By what is made, the options that it takes, besides ``what`` and ``out``."""
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "pool": (),
    "holes": ("truth", "runs"),
    "fastchat": ("what", "source", "answers"),
}
"""By what is made, the options that must be given; the source, where it is not named here."""


class ConvertOptions(CommandOptions):
    """Options of `convert`."""

    does: ClassVar[str] = "write pools, judgments and runs in other formats"
    usage: ClassVar[str] = "convert WHAT SOURCE --out FILE"
    positional: ClassVar[tuple[str, ...]] = ("what", "source", "answers")

    what: Literal[
        "pool", "holes", "qrels", "train", "run", "beir", "mteb", "fastchat", "llamahub"
    ] = Field(
        description="pool: pools to annotate, of a collection or of several runs; holes: unjudged "
        "documents at the top of runs, as pools to annotate; qrels: TREC qrels; train: query, "
        "document and score as JSON lines, to train a model on; run: a TREC run; beir: a BEIR "
        "directory; mteb: MTEB reranking rows as JSON lines; fastchat: pools of FastChat's "
        "questions and answers (MT-Bench); llamahub: pools of LlamaHub's examples of two answers"
    )
    source: Place = Field(
        "",
        description=f"{_FROM}; for run, a run as well; for fastchat, question.jsonl; "
        "for llamahub, its JSON file",
    )
    answers: tuple[Place, ...] = Field(
        (), description="FastChat's answers of models: files or directories"
    )
    truth: Place = Field("", description=f"judgments: {_FROM}, or TREC qrels")
    corpus: Place | None = Field(
        None, description="documents: JSON lines, lines id<TAB>text, or a BEIR directory"
    )
    queries: Place | None = Field(None, description="queries, in the same formats")
    runs: tuple[Place, ...] = Field((), description="TREC runs, or runs.parquet of a bake-off")
    depth: int | None = Field(
        None, ge=1, description="how deep to look into runs (pool: 100, holes: 10)"
    )
    qrels: Place | None = Field(
        None, description="judgments: every document judged there is wanted, too"
    )
    pools: tuple[Place, ...] = Field(
        (), description="JSON lines with the texts, if they are elsewhere"
    )
    all: bool = Field(False, description="also write the pools without holes, as they are")
    decimals: int | None = Field(
        None, description="round relevance; 0 for tools that know whole grades only"
    )
    grades: bool = Field(
        False, description="the whole grade that a panel gave, rather than its mean"
    )
    cut: tuple[float, ...] = Field(
        (),
        description="absolute scores from which on a document is of grade 1, 2 ...: the same for "
        "all queries, which scores of one query are not",
    )
    without_ambiguous: bool = Field(
        False, description="leave out documents over which the panel is split"
    )
    name: str | None = Field(
        None,
        description="which run to take from a file that holds several; otherwise, what "
        "to call the run",
    )
    positive: float = Field(1.0, description="relevance from which on a document is positive")
    votes: Place | None = Field(
        None, description="people's votes: a pool for each two answers that they compared"
    )
    pairs: int = Field(0, ge=0, description="how many of these to draw, or 0 for all")
    seed: int = Field(0, description="determines every random choice")
    labels_out: Place | None = Field(None, description="where to write the votes on these pools")
    out: Place = Field(description="where to write, a path or URL; .gz and .zst are compressed")

    @classmethod
    def takes(cls, given: Mapping[str, Any]) -> Collection[str]:
        """Return the options that go with what is made."""
        return ["what", "out", *TAKES.get(str(given.get("what")), ())]

    @model_validator(mode="after")
    def _fit_together(self) -> "ConvertOptions":
        if strange := sorted(self.model_fields_set - {*self.takes({"what": self.what})}):
            raise ValueError(f"{strange[0]}: convert {self.what} takes no such option")
        for name in _NEEDS.get(self.what, ("source",)):
            if not getattr(self, name):
                raise ValueError(f"{name}: convert {self.what} needs it")
        if self.cut and self.grades:
            raise ValueError("cut, grades: a panel's grades are whole already: give one of these")
        if list(self.cut) != sorted(set(self.cut)):
            raise ValueError("cut: must ascend")
        if self.what == "fastchat" and not self.votes and (self.pairs or self.labels_out):
            raise ValueError("pairs, labels_out: they are of votes: give these, too")
        return self
