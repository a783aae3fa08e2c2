"""Define the options of `tune`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from zelo_ray.options.command import FILES, JUDGING, MONEY, NO_FLAG, RUNNING
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.options.places import Place


class TuneOptions(JudgingOptions):
    """Options of `tune`: those of annotate as they are, and candidates that differ from them."""

    does: ClassVar[str] = "find which instructions, template, panel or protocol judges like people"
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
