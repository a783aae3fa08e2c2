"""Define the options of commands that compare ways of judging: by people, or by changed texts."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from zelo_ray.options.base import FILES, JUDGING, MONEY, NO_FLAG, RUNNING, OptionGroup
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.options.places import Place


class CompareProtocolsOptions(JudgingOptions):
    """Options of `compare-protocols`."""

    usage: ClassVar[str] = "compare-protocols INPUT... --human FILE --out DIR [--judges J...]"

    protocols: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="protocols to compare; without it, all but zelo+graded, auto and criteria"
    )
    human: Annotated[Place, FILES] = Field(
        description="people's labels: votes on pairs of documents, or qrels"
    )
    people: Annotated[str | None, FILES] = Field(
        None, min_length=1, description="only raters whose name matches, such as expert*"
    )
    max_usd: Annotated[float | None, MONEY] = Field(
        None, gt=0, description="what each protocol may cost over all runs, in US dollars"
    )
    resamples: Annotated[int, RUNNING, NO_FLAG] = Field(
        1000, ge=100, description="samples of queries, for intervals"
    )


class TuneOptions(JudgingOptions):
    """Options of `tune`: those of annotate as they are, and candidates that differ from them."""

    usage: ClassVar[str] = (
        "tune INPUT... --human FILE --out DIR [--try-instructions FILE...] [--try-judges J...]"
    )

    protocol: Annotated[str, JUDGING] = Field("zelo", description="way of judging as it is")
    human: Annotated[Place, FILES] = Field(
        description="people's labels: votes on pairs of documents, or qrels"
    )
    people: Annotated[str | None, FILES] = Field(
        None, min_length=1, description="only raters whose name matches, such as expert*"
    )
    try_instructions: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="each a candidate: files, URLs or texts with other instructions"
    )
    try_templates: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="each a candidate: files or URLs with other templates of the prompt"
    )
    try_judges: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="each a candidate: one other judge; panels of several in candidates"
    )
    try_protocols: Annotated[tuple[str, ...], JUDGING] = Field(
        (), description="each a candidate: another way of judging"
    )
    candidates: Annotated[dict[str, dict[str, Any]], JUDGING] = Field(
        default_factory=dict,
        description="by name: the options of annotate in which a candidate differs, such as "
        "{instructions: strict.txt, judges: [J, J]}",
    )
    measure: Annotated[Literal["concordance", "agreement"], RUNNING] = Field(
        "concordance",
        description="by what candidates are compared: the share of people's pairs that they order "
        "alike, where a tie counts half (concordance) or nothing (agreement)",
    )
    second_half: Annotated[Literal["all", "chosen"], MONEY] = Field(
        "all",
        description="who judges the second half of the queries: all candidates, or only the chosen "
        "one and what is as it is, which costs less",
    )
    resamples: Annotated[int, RUNNING, NO_FLAG] = Field(
        1000, ge=100, description="samples of queries, for intervals, and of signs, for p"
    )


_PROBING = OptionGroup("probing")


class ProbeOptions(JudgingOptions):
    """Options of `probe`."""

    usage: ClassVar[str] = "probe INPUT... --out DIR [--judges J...]"

    protocol: Annotated[Literal["graded", "zelo"], JUDGING] = Field(
        "graded",
        description="graded: grade each document and its changed copies; zelo: let them meet in "
        "battles, in both orders",
    )
    probes: Annotated[tuple[str, ...], _PROBING] = Field(
        (),
        description="length, order, stuffing, injection, popularity; without it, all that the "
        "protocol allows",
    )
    documents: Annotated[int, _PROBING] = Field(
        100,
        ge=1,
        description="how many documents are changed, drawn over all queries",
    )
    fail_above: Annotated[float, _PROBING] = Field(
        0.0,
        ge=0,
        description="exit status 4 if a shift is significant and surely larger than this, in "
        "grades (or in preference, -1 to 1)",
    )
    resamples: Annotated[int, _PROBING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
