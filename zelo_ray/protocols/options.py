"""Define the options of every protocol, apart from judging and fitting, which help never needs."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from zelo_ray.options import (
    FROM_USER,
    NO_FLAG,
    AnnotateOptions,
    FileText,
    Place,
    read_text_or_literal,
)
from zelo_ray.protocols import anchors
from zelo_ray.protocols.templates import TemplateForm, TemplateOptions

_REPEATS = "ask every question N times (pairs in both orders), to see how consistent judges are"
Repeats = Annotated[int, Field(ge=1, description=_REPEATS)]
Cycles = Annotated[int, Field(ge=1, description="random cycles of battles for each query")]
_HUMAN = (
    "a few grades of people (qrels): they show how far scores lie from people, and set the scale "
    "of graded"
)
Human = Annotated[Place | None, Field(description=_HUMAN)]
"""Options that several protocols have."""

Voters = Annotated[
    Literal["all", "one"],
    NO_FLAG,
    Field(description="who votes on a pair: all judges, or one of them in turn"),
]


class AnchoredOptions(AnnotateOptions):
    """Options of every protocol that grades."""

    anchors: FileText = Field(
        anchors.USUAL, description="worked examples for grades: a built-in domain, a file or a URL"
    )

    @field_validator("anchors")
    @classmethod
    def _can_be_used(cls, text: str) -> str:
        anchors.load_anchors(text)
        return text


class VoteOptions(AnnotateOptions):
    """Options of every protocol whose scores rest on votes."""

    prior_sd: Annotated[
        float,
        NO_FLAG,
        Field(ge=1e-6, le=1e6, description="prior standard deviation of a score, in logits"),
    ] = 2.5
    human: Human = None


class ZeloOptions(AnchoredOptions, TemplateOptions, VoteOptions):
    """Options of battles, and of grades beside them where calls are counted."""

    template_form = TemplateForm(
        prompt="pairwise",
        documents=(("document_a", "document A", "a"), ("document_b", "document B", "b")),
    )

    cycles: Cycles = 4
    calls_per_document: int | None = Field(
        None,
        ge=2,
        description="calls for each document of a query, in place of cycles: judges grade it "
        "first (see --anchors), and rings of battles, by judges in turn, take the rest",
    )
    votes: Voters = "all"
    repeats: Repeats = 1
    answer: Literal["reasoned", "token"] = Field(
        "reasoned",
        description="how a judge votes on a pair: with its reasons, or by the probabilities of one "
        "letter, for a tenth of the output or less (openai and compatible servers alone)",
    )

    @model_validator(mode="after")
    def _go_together(self, info: ValidationInfo) -> Self:
        if self.template and self.answer == "token":
            raise ValueError(
                "a template is the prompt of reasoned votes, and answer token has one of its own; "
                "give one of the two (instructions go with both)"
            )
        if self.calls_per_document is not None:
            defaults = type(self).model_fields
            for name in ("cycles", "repeats", "votes"):
                if getattr(self, name) != defaults[name].default:
                    raise ValueError(f"use either {name} or calls_per_document, which decides it")
        elif self.anchors != anchors.USUAL and info.context == FROM_USER:  # or another's, compared
            raise ValueError("anchors are examples for grades: give calls_per_document with them")
        return self

    def first_round(self, judges: int) -> tuple[int, int]:
        """Return the grades of each document and the rings of battles, by a panel of a size."""
        if self.calls_per_document is None:
            return 0, self.cycles
        grades = max(1, min(self.calls_per_document - 1, judges))
        return grades, self.calls_per_document - grades


def _choose_pooling(value: Any, info: ValidationInfo) -> Any:
    """Return how grades are pooled where nobody says it."""
    learned = info.data.get("human") and not info.data.get("criteria")
    return value or ("thurstone" if learned else "mean")


_CRITERION = re.compile(r"([a-z][a-z0-9_]*)\s*(?:=\s*(\d*\.?\d+))?\s*(?::\s*(.*[^\d\s.].*))?")
_MAX_CRITERIA = 12
"""Criteria that one answer may grade."""


class Criterion(NamedTuple):
    """A criterion: its name, its weight, and what it asks of a document."""

    name: str
    weight: float
    meaning: str


def parse_criterion(text: str) -> Criterion:
    """Read a criterion as ``name=weight: meaning``; weight and meaning may be left out."""
    match = _CRITERION.fullmatch(text.strip())
    if not match or not float(match[2] or 1):
        raise ValueError(
            f"{text[:60]!r} is no criterion; write name=weight: meaning, such as accuracy=2: what "
            "it says is right (names of small letters, digits and _; weights above 0)"
        )
    return Criterion(match[1], float(match[2] or 1), match[3] or "")


def _read_criteria(texts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Return the criteria, a text each; a single text may be a file with a line for each."""
    if info.context == FROM_USER and len(texts) == 1:
        lines = [line.strip() for line in read_text_or_literal(texts[0]).splitlines()]
        texts = tuple(line for line in lines if line and not line.startswith("#"))
    if info.context == FROM_USER and not texts:
        raise ValueError("there is no criterion; write a line for each, as name=weight: meaning")
    names = [parse_criterion(text).name for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two criteria are called {name}")
        is_taken = hasattr(BaseModel, name) or name.startswith("model_") or name == "synthesize"
        if is_taken or name.removesuffix("_error") in {*names} - {name}:
            raise ValueError(f"a criterion cannot be called {name} here; give it another name")
    if len(names) > _MAX_CRITERIA:
        raise ValueError(f"give at most {_MAX_CRITERIA} criteria, not {len(names)}")
    return tuple(text.strip() for text in texts)


class GradedOptions(AnchoredOptions, TemplateOptions):
    """Options of grades."""

    template_form = TemplateForm(
        prompt="graded",
        documents=(("document", "document", "document"),),
        optional=tuple((name, name) for name in ("instructions", "grades", "examples")),
    )

    criteria: Annotated[tuple[str, ...], AfterValidator(_read_criteria)] = Field(
        (),
        description="grade by these, each as 'name=weight: meaning', or by a file with a line for "
        "each; a grade is their weighted mean",
    )
    repeats: Repeats = 1
    human: Human = None
    pooling: Annotated[
        Literal["mean", "thurstone"] | None, BeforeValidator(_choose_pooling), NO_FLAG
    ] = Field(
        None,
        validate_default=True,
        description="how a panel's grades become one: mean, or thurstone, by a fit of each judge; "
        "without it the mean, and thurstone where there are human grades",
    )
    ambiguous: Annotated[float, NO_FLAG] = Field(
        1.5, gt=0, description="mean difference of two judges' grades that marks a split panel"
    )

    @model_validator(mode="after")
    def _criteria_have_a_prompt_of_their_own(self) -> Self:
        if self.criteria and self.template:
            raise ValueError("use either criteria or a template, which has no place for them")
        if self.criteria and self.anchors != anchors.USUAL:
            raise ValueError("use either criteria or anchors: grades by criteria have no examples")
        if self.criteria and self.pooling == "thurstone":
            raise ValueError("use either criteria, whose grades are means, or pooling: thurstone")
        return self

    @property
    def parsed_criteria(self) -> tuple[Criterion, ...]:
        """Return the criteria, in their order."""
        return tuple(map(parse_criterion, self.criteria))

    @property
    def criteria_names(self) -> tuple[str, ...]:
        """Return the names of the criteria, in their order."""
        return tuple(criterion.name for criterion in self.parsed_criteria)


def recorded_pooling(options: Mapping[str, Any]) -> str:
    """Return how the grades of a run are pooled."""
    return str(options.get("pooling") or "mean")


class ListwiseOptions(VoteOptions):
    """Options of listwise votes."""

    group: Annotated[int, NO_FLAG] = Field(
        8, ge=3, le=50, description="documents that a judge orders in one call, at most"
    )
    looks: Annotated[int, NO_FLAG] = Field(
        3, ge=2, description="calls that each document is in, beside others each time, by one judge"
    )
    votes: Voters = "all"
    repeats: Repeats = 1


class BestOfOptions(TemplateOptions, VoteOptions):
    """Options of tournaments."""

    template_form = TemplateForm(
        prompt="best-of",
        query="question",
        documents=(("answer_1", "answer 1", "first"), ("answer_2", "answer 2", "second")),
        optional=(("instructions", "criteria"),),
    )

    order: Literal["input", "random"] = Field(
        "input", description="best-of: who is king first, and who challenges next"
    )
    repeats: Repeats = 1


class PairingOptions(VoteOptions):
    """Options of debate and its baselines."""

    cycles: Cycles = 4
    both_orders: bool = Field(
        False,
        description="samre, baselines: judge with either answer first; if the winner flips, it is "
        "a tie",
    )


class RoundsOptions(PairingOptions):
    """Options of debate, and of the baseline that may be asked as often."""

    rounds: int | Literal["samre"] | None = Field(
        None,
        description="samre: rounds at most (4 if not given); baseline-strong: times to ask (1), or "
        "samre: as many calls as the debate on the same answers took",
    )

    @field_validator("rounds", mode="before")
    @classmethod
    def _rounds_are_some(cls, value: Any) -> Any:
        if value in (None, "samre") or (str(value).isdecimal() and int(value) > 0):
            return value
        raise ValueError("a number from 1 on, or samre")


OPTIONS: Mapping[str, type[AnnotateOptions]] = {
    "zelo": ZeloOptions,
    "graded": GradedOptions,
    "listwise-votes": ListwiseOptions,
    "best-of": BestOfOptions,
    "samre": RoundsOptions,
    "baseline-strong": RoundsOptions,
    "baseline-weak": PairingOptions,
}
"""By protocol of the package."""
