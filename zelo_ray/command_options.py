"""Define the options of each command but `annotate`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from zelo_ray.options import (
    FILES,
    JUDGING,
    MEASURING,
    MONEY,
    OTHERS,
    RUNNING,
    AnnotateOptions,
    AskingOptions,
    CommandOptions,
    JudgeOptions,
    Judges,
    JudgingOptions,
    KeyVariables,
    NamedPlace,
    OptionGroup,
    People,
    Place,
    Prices,
    ReadingOptions,
    Runs,
    Seed,
    Tables,
    TextOrFile,
    Track,
    option,
    read_text_or_literal,
)

# --- judging --------------------------------------------------------------------------------------


class PromptOptions(AnnotateOptions):
    """Options of `prompt`: those of `annotate`, and what of the input to show."""

    usage: ClassVar[str] = "prompt INPUT... [--query ID] [--doc ID...] [--judges J...]"

    inputs: tuple[str, ...] = option((), FILES, "as annotate takes them; or those of --out")
    query: str = option(
        "", OTHERS, "query id, its beginning, or a part of its text (default: first)"
    )
    doc: tuple[str, ...] = option((), OTHERS, "ids of documents: the requests that show them all")
    body: bool = option(False, OTHERS, "print the body of each HTTP request alone, as JSON lines")
    out: Place = option("", FILES, "place of a run, whose replies tell what later rounds ask")

    @model_validator(mode="after")
    def _has_input(self) -> Self:
        if not (self.inputs or self.out):
            raise ValueError("inputs: is missing, and so is the out of a run that has some")
        return self


class FitOptions(ReadingOptions):
    """Options of `fit`."""

    usage: ClassVar[str] = "fit FILE [--out FILE]"
    positional: ClassVar[tuple[str, ...]] = ("source",)
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("mle", "prior_sd"),)

    source: Place = option(
        ...,
        FILES,
        "rows of winner and loser, or of two items (a, b) with preference (-1 to 1, negative: a is "
        "better), winner, or a_wins and b_wins; votes.parquet of annotate",
    )
    out: Place | None = option(None, FILES, "file for the scores: .csv, .tsv, .jsonl, .parquet ...")
    prior_sd: float = option(2.5, OTHERS, "deviation of a score's prior", ge=1e-06, le=1000000.0)
    mle: bool = option(False, OTHERS, "plain maximum likelihood, without a prior")
    scale: Literal["logits", "elo"] = option("logits", OTHERS, "elo: 400 points are odds of 10")

    @model_validator(mode="after")
    def _out_can_be_written(self) -> Self:
        if self.out and not format_of_file(self.out):
            raise ValueError(f"out: {self.out} must end in .csv, .tsv, .json, .jsonl or .parquet")
        if self.out == self.source:
            raise ValueError(f"--out {self.out}: would overwrite the input")
        return self


def format_of_file(url: str) -> str:
    """Return the ending of a file's name that determines its format; "" if none does."""
    match = re.fullmatch(r".*(\.csv|\.tsv|\.jsonl?)(\.gz|\.zst)?|.*(\.parquet)", url, re.DOTALL)
    return (match[1] or match[3]) if match else ""


# --- comparing ------------------------------------------------------------------------------------


_Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: (names,) if isinstance(names, str) else names)
]


class BakeoffOptions(AskingOptions):
    """Options of `bakeoff`."""

    usage: ClassVar[str] = "bakeoff --truth FILE --rerankers R... --out DIR"
    needs: ClassVar[Mapping[str, str]] = {
        "margin": "baseline, the ranker that others are compared with"
    }

    truth: Place = option(
        ..., FILES, "labels: the --out of annotate, its files, qrels, a BEIR folder"
    )
    pools: tuple[Place, ...] = option((), FILES, "documents to rank; without it, the truth's")
    runs: Runs = ()
    human: Place | None = option(None, FILES, "people's labels that correct the truth")
    rerankers: tuple[str, ...] = option(
        (),
        JUDGING,
        "such as original, bm25, cohere:rerank-v5.0-pro, cross-encoder:PATH, "
        "listwise:openai:gpt-6-luna, my_module:MyClass; NAME=... to name one",
    )
    reranker_options: dict[str, dict[str, Any]] = option(
        {}, JUDGING, "by reranker: what changes its scores (a constructor's arguments ...)"
    )
    document_tokens: int | None = option(
        None,
        JUDGING,
        "tokens of a document that a reranker sees; without it all, but 2,000 for listwise and "
        "pointwise",
        ge=16,
    )
    num_gpus: dict[str, float] = option({}, RUNNING, "by reranker: GPUs for each of its actors")
    measures: tuple[str, ...] = option(
        (), MEASURING, "as ir_measures writes them, or my_module:MEASURE@10; the first leads"
    )
    baseline: str | None = option(
        None,
        MEASURING,
        "the ranker that none may be worse than (status 4: one is, 3: too little data)",
        min_length=1,
    )
    margin: float = option(0.01, MEASURING, "with baseline: the largest tolerable loss", ge=0)
    label_draws: int = option(200, MEASURING, "samples of labels with errors", flag=False, ge=0)
    confidence: float = option(0.95, MEASURING, "confidence of intervals", flag=False, gt=0, lt=1)
    write_annotated: bool = option(False, FILES, "write the pools with each ranker's scores, too")
    slices: tuple[str, ...] = option((), MEASURING, "show results by these fields of queries, too")
    families: dict[str, _Names] = option(
        {},
        MEASURING,
        "by ranker or judge (or truth), its model families, such as gpt, if its name does not tell",
    )

    @model_validator(mode="after")
    def _gate_is_sure_of_something(self) -> Self:
        if self.baseline and self.confidence <= 0.5:
            raise ValueError("confidence: with baseline, must be above 0.5")
        return self


class CompareOptions(JudgingOptions):
    """Options of `compare`: those of annotate as they are, and ways that differ from them."""

    usage: ClassVar[str] = "compare INPUT... --human FILE --out DIR --try OPTION=VALUE..."

    human: Place = option(..., FILES, "people's labels: votes on pairs of documents, or qrels")
    people: People = None
    protocol: str = option("zelo", JUDGING, "way of judging as it is")
    try_: tuple[str, ...] = option(
        (),
        JUDGING,
        "each another way, by one option of annotate: protocol=NAME, instructions=FILE, "
        "template=FILE, judges=JUDGE ...",
    )
    candidates: dict[str, dict[str, Any]] = option(
        {}, JUDGING, "further ways by name: the options of annotate in which each differs"
    )
    halves: bool = option(
        False, MEASURING, "choose on one half of the labelled queries, test once on the other"
    )
    measure: Literal["concordance", "agreement"] = option(
        "concordance", MEASURING, "share of people's pairs in order; a tie counts half, or 0"
    )

    @model_validator(mode="before")
    @classmethod
    def _is_called_as_its_flag(cls, values: Any) -> Any:
        if not (isinstance(values, Mapping) and "try" in values):
            return values
        others = {name: value for name, value in values.items() if name != "try"}
        return {"try_": values["try"], **others}


class ProbeOptions(JudgingOptions):
    """Options of `probe`."""

    usage: ClassVar[str] = "probe INPUT... --out DIR [--judges J...]"

    protocol: Literal["graded", "zelo"] = option(
        "graded", JUDGING, "grade documents and their copies, or let them meet in battles"
    )
    probes: tuple[str, ...] = option((), OTHERS, "length, order, stuffing, injection, popularity")
    documents: int = option(100, OTHERS, "documents that are changed, over all queries", ge=1)
    fail_above: float = option(0.0, OTHERS, "exit status 4 if a shift is surely larger", ge=0)


# --- people ---------------------------------------------------------------------------------------

COEFFICIENTS = (
    *("kappa", "kappa-linear", "kappa-quadratic", "fleiss"),
    *("alpha-nominal", "alpha-ordinal", "alpha-interval"),
    *("ac1", "ac2-linear", "ac2-quadratic", "agreement", "mcc"),
)
"""Names in `zelo_ray.evaluation.coefficients.COEFFICIENTS`, which help lists without numpy."""


class AgreeOptions(ReadingOptions):
    """Options of `agree`."""

    usage: ClassVar[str] = "agree SOURCE... [--human FILE] [--out DIR]"
    positional: ClassVar[tuple[str, ...]] = ("sources",)
    needs: ClassVar[Mapping[str, str]] = {"track": "out", "people": "human"}

    sources: tuple[NamedPlace, ...] = option(
        ...,
        FILES,
        "judgments: an --out of annotate; tables of grades, votes, or rows that name a winner; "
        "qrels, whose judge is the file's name or NAME in NAME=path; a directory of such files",
        min_length=1,
    )
    human: Place | None = option(None, FILES, "people's judgments: such a file, or qrels")
    people: People = None
    runs: Runs = ()
    relevant: tuple[str, ...] = option(
        (), FILES, "two sets of labels to compare, and the lowest relevant label of each: NAME=2"
    )
    out: Tables = None
    track: Track = ()
    levels: int = option(4, OTHERS, "grades of the scale, from 0", ge=2, le=100)
    clip: bool = option(False, OTHERS, "move grades outside the scale to its nearest end")
    thresholds: tuple[int, ...] | None = option(
        None, OTHERS, "lowest positive grades of binary scales (default: all above 0)"
    )
    both_orders: Literal["tie", "lenient"] = option(
        "tie", MEASURING, "a judge decided one order and tied the other: a tie, or decided"
    )
    coefficients: tuple[str, ...] = option(
        (), MEASURING, f"which to compute; without it, all: {', '.join(COEFFICIENTS)}"
    )
    trust: float = option(0.97, MEASURING, "agreement from which a panel is trusted", gt=0.5, lt=1)
    measure: str = option("nDCG@10", MEASURING, "measure of the runs")
    fail_on_change: bool = option(
        False, MEASURING, "end with status 4 if a judge of two runs changed significantly"
    )

    @property
    def positive_thresholds(self) -> tuple[int, ...]:
        """Return the lowest positive grades of the binary scales."""
        return tuple(range(1, self.levels)) if self.thresholds is None else self.thresholds

    @field_validator("relevant", mode="after")
    @classmethod
    def _two_names(cls, relevant: tuple[str, ...]) -> tuple[str, ...]:
        for each in relevant:
            if not re.fullmatch(r".+=-?\d+(\.\d+)?", each):
                raise ValueError(f"{each!r} is not NAME=NUMBER")
        if len(relevant) not in (0, 2):
            raise ValueError("name two sets of labels: --relevant old=1 new=2")
        return relevant

    @model_validator(mode="after")
    def _thresholds_fit(self) -> Self:
        if not all(1 <= cut < self.levels for cut in self.positive_thresholds):
            raise ValueError(f"thresholds: must be from 1 to {self.levels - 1}")
        return self


_SAMPLE = OptionGroup("the sample")
_PAGE = OptionGroup("the page")
Draw = Literal["random", "disagreement"]
"""How documents of a run are drawn for people."""


class LabelOptions(ReadingOptions):
    """Options of `label`."""

    usage: ClassVar[str] = "label --contest DIR --labels N --out DIR"
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (
        *(("labels", "more"), ("contest", "run"), ("csv", "read")),
    )
    needs: ClassVar[Mapping[str, str]] = {
        "draw": "run, as documents of a bake-off are drawn by its measure",
        "pairs": "run, whose judges compared documents",
    }

    contest: Place | None = option(None, FILES, "the bake-off whose documents people judge")
    run: Place | None = option(None, FILES, "the run whose documents people judge")
    out: Place = option(..., FILES, "directory of the labels; an existing sample is continued")
    pools: tuple[Place, ...] = option((), FILES, "the texts, if not those of the bake-off")
    csv: Place | None = option(None, FILES, "write what is unjudged to a table; serve no page")
    read: Place | None = option(None, FILES, "read answers from such a table, or any with its key")
    person: str | None = option(None, FILES, "who filled in a table without names", min_length=1)
    labels: int | None = option(None, _SAMPLE, "documents or pairs to draw (default 200)", ge=1)
    more: int | None = option(None, _SAMPLE, "how many to judge beyond those judged so far", ge=1)
    draw: Draw | None = option(None, _SAMPLE, "disagreement: draw likelier what judges disagree on")
    pairs: bool = option(False, _SAMPLE, "draw pairs, of which people say which is better")
    measure: str | None = option(None, _SAMPLE, "one that is linear in the labels, such as P@5")
    overlap: float | None = option(None, _SAMPLE, "share that two people judge", ge=0, le=1)
    seed: int | None = option(None, _SAMPLE, "seed of the random sample (default 0)", ge=0)
    rubric: str | None = option(None, _PAGE, "file that explains the grades 0 to 3 in your words")
    instructions: TextOrFile | None = option(
        None, _PAGE, "what counts as relevant: a file, URL or text (default: as judges)"
    )
    show_query: tuple[str, ...] | None = option(
        None, _SAMPLE, "fields of a query's line that people see as well (default: as judges)"
    )
    port: int = option(0, _PAGE, "port of the page on 127.0.0.1; 0: a free one", ge=0, le=65535)
    no_browser: bool = option(False, _PAGE, "do not open a browser")

    @field_validator("out")
    @classmethod
    def _is_a_directory(cls, out: str) -> str:
        if "://" in out:
            raise ValueError(f"{out}: answers are stored on a local disk; name a directory")
        return out

    @field_validator("rubric")
    @classmethod
    def _is_read(cls, rubric: str | None) -> str | None:
        text = rubric and read_text_or_literal(rubric)
        if text is not None and (not text.strip() or (text == rubric and "\n" not in text)):
            raise ValueError(f"{rubric}: no such file, or an empty one")
        return text


# --- files ----------------------------------------------------------------------------------------

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
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("grades", "cut"),)
    positional: ClassVar[tuple[str, ...]] = ("what", "source")

    what: Literal["pool", "unjudged", "qrels", "train", "run", "beir"] = option(
        ...,
        OTHERS,
        "pool: pools to annotate, from a collection or from several runs; unjudged: unjudged "
        "documents at the top of runs, as pools to annotate; qrels: TREC qrels; train: examples to "
        "train a reranker or embedder on; run: a TREC run; beir: a BEIR directory",
    )
    source: Place = option("", OTHERS, f"{_FROM}; for run, a run as well")
    truth: Place = option("", OTHERS, f"judgments: {_FROM}, or TREC qrels")
    corpus: Place | None = option(None, OTHERS, "documents: JSONL, id<TAB>text, a BEIR folder")
    queries: Place | None = option(None, OTHERS, "queries, in the same formats")
    runs: Runs = ()
    depth: int | None = option(None, OTHERS, "how deep to look (pool: 100, unjudged: 10)", ge=1)
    qrels: Place | None = option(None, OTHERS, "judgments, whose documents are added to the pools")
    pools: tuple[Place, ...] = option((), OTHERS, "pools with the texts, if they are elsewhere")
    all: bool = option(False, OTHERS, "also write the pools without unjudged documents")
    grades: bool = option(False, OTHERS, "write the panel's whole grade rather than its mean")
    cut: tuple[float, ...] = option((), OTHERS, "lowest absolute scores of grades 1, 2 ...")
    without_ambiguous: bool = option(False, OTHERS, "leave out what the panel is split on")
    seed: Seed = 0
    form: Literal["rows", "pairs", "lists", "triplets"] = option(
        "rows",
        OTHERS,
        "of examples to train on. rows: a query, a document, its relevance; pairs: two documents, "
        "the chance that the first is better; lists: a query, all its documents, targets from 0 to "
        "1; triplets: a better and a worse document",
    )
    min_gap: float | None = option(None, OTHERS, "least gap in a triplet: errors, or grades", ge=0)
    per_query: int = option(0, OTHERS, "pairs or triplets of a query to draw; 0: all", ge=0)
    splits: tuple[float, ...] = option((80, 10, 10), OTHERS, "shares to train, choose, test on")
    out: Place = option(..., OTHERS, "where to write, a path or URL; .gz and .zst are compressed")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        applicable = {"what", "out", "columns", *OPTIONS_OF_FORMAT[self.what]}
        if strange := sorted(self.model_fields_set - applicable):
            raise ValueError(f"{strange[0]}: is not an option of convert {self.what}")
        for name in _REQUIRED.get(self.what, ("source",)):
            if not getattr(self, name):
                raise ValueError(f"{name}: is required by convert {self.what}")
        if list(self.cut) != sorted(set(self.cut)):
            raise ValueError("cut: must ascend")
        if len(self.splits) != 3 or min(self.splits) < 0 or sum(self.splits) <= 0:
            raise ValueError("splits: takes three shares, such as 80 10 10")
        return self


# --- looking at results, and at this machine ------------------------------------------------------


class ExplainOptions(CommandOptions):
    """Options of `explain`."""

    usage: ClassVar[str] = "explain RUN [--query ID] [--doc ID]"
    needs: ClassVar[Mapping[str, str]] = {"doc": "query"}
    positional: ClassVar[tuple[str, ...]] = ("run",)

    run: Place = option(..., OTHERS, "output directory or URL of annotate")
    query: str = option("", OTHERS, "query id, its beginning, or a part of its text (default: all)")
    doc: str | None = option(None, OTHERS, "document id or its beginning (default: all, by rank)")
    short: bool = option(False, OTHERS, "leave out what judges wrote")


class ReportOptions(CommandOptions):
    """Options of `report`."""

    usage: ClassVar[str] = "report DIR [DIR ... --index FILE]"
    positional: ClassVar[tuple[str, ...]] = ("runs",)

    runs: tuple[Place, ...] = option(..., OTHERS, "output directories of commands", min_length=1)
    query: str = option("", OTHERS, "query that the page of annotate lists: its id or a part of it")
    index: Place | None = option(None, OTHERS, "page that lists several runs")


class WatchOptions(CommandOptions):
    """Options of `watch`."""

    usage: ClassVar[str] = "watch DIR [--once]"
    positional: ClassVar[tuple[str, ...]] = ("run",)

    run: Place = option(..., OTHERS, "output directory or URL of a command that asks")
    once: bool = option(False, OTHERS, "show it once and end, instead of until the run ends")


class BatchesOptions(CommandOptions):
    """Options of `batches`."""

    usage: ClassVar[str] = "batches DIR [--cancel]"
    positional: ClassVar[tuple[str, ...]] = ("run",)

    run: Place = option(..., OTHERS, "output directory or URL of annotate")
    cancel: bool = option(False, OTHERS, "cancel the pending ones")


class SampleOptions(CommandOptions):
    """Options of `sample`."""

    usage: ClassVar[str] = "sample [DIR]"
    positional: ClassVar[tuple[str, ...]] = ("out",)

    out: str = option("data", OTHERS, "directory on this machine")


class DoctorOptions(CommandOptions):
    """Options of `doctor`."""

    usage: ClassVar[str] = "doctor [--judges J...] [--ask]"

    judges: Judges = ()
    ask: bool = option(False, MONEY, "make one call to each judge")
    judge_options: JudgeOptions = Field(default_factory=dict)
    prices: Prices = Field(default_factory=dict)
    api_key_env: KeyVariables = Field(default_factory=dict)
