"""Define the options of `label`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from zelo_ray.options.base import FILES, OptionGroup, ReadingOptions
from zelo_ray.options.places import Place, TextOrFile, read_text_or_literal

_SAMPLE = OptionGroup("the sample")
_PAGE = OptionGroup("the page")


Draw = Literal["random", "disagreement"]
"""How documents of a run are drawn for people."""


class LabelOptions(ReadingOptions):
    """Options of `label`."""

    usage: ClassVar[str] = "label --contest DIR --labels N --out DIR"

    contest: Annotated[Place | None, FILES] = Field(
        None,
        description="--out of the bake-off whose documents people judge; needed for a new "
        "sample, or for new rankers",
    )
    run: Annotated[Place | None, FILES] = Field(
        None,
        description="--out of annotate whose documents people judge, where there is no bake-off",
    )
    out: Annotated[Place, FILES] = Field(
        description="directory of the labels; an existing sample is continued"
    )
    pools: Annotated[tuple[Place, ...], FILES] = Field(
        (), description="the texts, in any format of annotate's input (default: the bake-off's)"
    )
    csv: Annotated[Place | None, FILES] = Field(
        None, description="write what is unjudged to a spreadsheet file; serve no page"
    )
    read: Annotated[Place | None, FILES] = Field(
        None,
        description="read the answers from such a file, or from any CSV or JSON with its column "
        "key; --columns grade=NAME judge=NAME say where answer and person are",
    )
    person: Annotated[str | None, FILES] = Field(
        None, min_length=1, description="who filled in the file, where it names nobody"
    )
    labels: Annotated[int | None, _SAMPLE] = Field(
        None, ge=1, description="documents or pairs to draw in total (default 200)"
    )
    more: Annotated[int | None, _SAMPLE] = Field(
        None, ge=1, description="how many to judge beyond those judged so far"
    )
    draw: Annotated[Draw | None, _SAMPLE] = Field(
        None,
        description="which documents of --run are likelier to be drawn. random: none; "
        "disagreement: those that judges disagree on",
    )
    pairs: Annotated[bool, _SAMPLE] = Field(
        False,
        description="draw pairs that the judges of --run compared: people say which of two "
        "documents is better",
    )
    measure: Annotated[str | None, _SAMPLE] = Field(
        None,
        description="a measure that is linear in the labels, such as nDCG@10 or P@5 "
        "(default: the first such measure of the bake-off)",
    )
    overlap: Annotated[float | None, _SAMPLE] = Field(
        None, ge=0, le=1, description="share that two people judge (default 0)"
    )
    seed: Annotated[int | None, _SAMPLE] = Field(
        None, ge=0, description="seed of the random sample (default 0)"
    )
    rubric: Annotated[str | None, _PAGE] = Field(
        None, description="file that explains the grades 0 to 3 in your words"
    )
    instructions: Annotated[TextOrFile | None, _PAGE] = Field(
        None,
        description="what counts as relevant, as the judges were told: a file, a URL or the text "
        "itself (default: that of the bake-off, or of the run that made its truth)",
    )
    show_query: Annotated[tuple[str, ...] | None, _SAMPLE] = Field(
        None, description="fields of a query's line that people see as well (default: as judges)"
    )
    port: Annotated[int, _PAGE] = Field(
        0, ge=0, le=65535, description="port of the page on 127.0.0.1; 0 picks a free one"
    )
    no_browser: Annotated[bool, _PAGE] = Field(False, description="do not open a browser")

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

    @model_validator(mode="after")
    def _go_together(self) -> "LabelOptions":
        if self.labels and self.more:
            raise ValueError("use either labels (the total) or more (additional ones), not both")
        if self.contest and self.run:
            raise ValueError("use either contest (a bake-off) or run (of annotate), not both")
        if self.draw and not self.run:
            raise ValueError("draw: needs run; documents of a bake-off are drawn by its measure")
        if self.pairs and self.contest:
            raise ValueError("pairs: needs run, whose judges compared documents")
        if self.read and self.csv:
            raise ValueError("use either csv (write a file) or read (read it back), not both")
        return self
