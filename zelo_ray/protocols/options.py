"""Define the options of every protocol, apart from judging and fitting, which help never needs."""

import json
import re
from collections.abc import Mapping
from math import floor
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

from zelo_ray.files.wording import counted
from zelo_ray.options import (
    FROM_USER,
    JUDGING,
    NO_FLAG,
    AnnotateOptions,
    FileText,
    Place,
    read_text,
    read_text_or_literal,
)
from zelo_ray.protocols import anchors
from zelo_ray.protocols.protocol import KEPT, RECORDED
from zelo_ray.protocols.templates import TemplateForm, TemplateOptions
from zelo_ray.protocols.token_votes import AnswerForm

Repeats = Annotated[
    int,
    Field(
        ge=1,
        description="ask every question N times (pairs in both orders), to see how consistent "
        "judges are",
    ),
]
Cycles = Annotated[int, Field(ge=1, description="random cycles of battles for each query")]
PriorSd = Annotated[
    float, NO_FLAG, Field(gt=0, description="prior standard deviation of a score, in logits")
]
"""Options that several protocols have."""
Human = Annotated[
    Place | None,
    Field(
        description="a few grades of people (qrels): they show how far scores lie from "
        "people, and set the scale of graded"
    ),
]
"""An option of protocols whose errors can be learned."""


class BattleOptions(AnnotateOptions):
    """Options of every protocol that lets all pairs of its plan meet."""

    cycles: Cycles = 4
    votes: Annotated[Literal["all", "one"], NO_FLAG] = Field(
        "all", description="who votes on a pair: all judges, or one of them in turn"
    )
    prior_sd: PriorSd = 2.5
    repeats: Repeats = 1
    human: Human = None


class ZeloOptions(BattleOptions, TemplateOptions):
    """Options of battles alone."""

    template_form = TemplateForm(
        prompt="pairwise",
        documents=(("document_a", "document A", "a"), ("document_b", "document B", "b")),
    )

    answer: AnswerForm = "reasoned"

    @model_validator(mode="after")
    def _template_is_of_reasoned_votes(self) -> Self:
        if self.template and self.answer == "token":
            raise ValueError(
                "a template is the prompt of reasoned votes, and answer token has one of its own; "
                "give one of the two (instructions go with both)"
            )
        return self


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


class GradingOptions(AnchoredOptions):
    """Options of protocols that grade as often as is wished."""

    repeats: Repeats = 1


class ZeloGradedOptions(BattleOptions, GradingOptions):
    """Options of battles and grades."""

    answer: AnswerForm = "reasoned"
    grades: int = Field(5, ge=1, description="grades for each query in zelo+graded")


ANSWER, REASONED = "answer", "reasoned"
"""The form of the judges' answers in a record of them; without it they gave reasons."""


def _model_at(place: str) -> str:
    """Return a model's text, given as such, as its file, or as the directory of the run."""
    text = place
    if not place.lstrip().startswith("{"):
        name = place.rstrip("/")
        text = read_text(name if name.endswith(".json") else f"{name}/{KEPT}")
    from zelo_ray.fitting.panel import PanelModel  # noqa: PLC0415 - numpy, which no help needs

    try:
        PanelModel.from_json(json.loads(text))
    except (ValueError, AttributeError):
        raise ValueError(f"{place[:200]}: it holds no judges that a run of lean learned") from None
    return text


class LeanOptions(AnchoredOptions):
    """Options of few calls."""

    rings: int | None = Field(
        None,
        ge=1,
        description="rings of battles; each gives a document two, for a call. Without it 1 below 3 "
        "calls a document, 4 from 6 on, else 2",
    )
    grades_per_document: int | None = Field(
        None,
        ge=1,
        description="grades of each document, by different judges. Without it 1 in lean; in auto "
        "as many as there are judges, if a ring of battles can be paid for, too",
    )
    audits: float = Field(
        0.02, ge=0, le=1, description="share of pairs on which all judges vote, in both orders"
    )
    calls_per_document: float = Field(
        4.0, gt=0, description="calls for each document of a query, at most, in all rounds"
    )
    later_rounds: int | None = Field(
        None,
        ge=0,
        description="rounds at the top, after the first; 1, or 2 from 50 documents, if unset",
    )
    until_loss: float = Field(
        0.04,
        ge=0,
        description="ask no later round where nDCG@10 is expected to lose less than this",
    )
    judges_from: Annotated[str, AfterValidator(_model_at)] | None = Field(
        None,
        description="directory of an earlier run of lean, whose judges are taken as "
        "they answered there",
    )
    answer: AnswerForm = "reasoned"
    human: Human = None

    @model_validator(mode="after")
    def _takes_judges_as_they_answer(self) -> Self:
        """Refuse judges who answered in another form there: their habits are others."""
        if self.judges_from is not None:
            form = json.loads(self.judges_from).get(ANSWER, REASONED)
            if form != self.answer:
                raise ValueError(
                    f"judges_from: these judges were measured with --answer {form}, and answer "
                    f"otherwise with --answer {self.answer}; take a run with that, or leave "
                    "judges_from out"
                )
        return self

    @model_validator(mode="after")
    def _has_calls_for_the_first_round(self) -> Self:
        grade_count, ring_count = self.first_round(None)
        needed = grade_count + ring_count
        if self.calls_per_document < needed:
            grades, rings = counted(grade_count, "grade"), counted(ring_count, "ring")
            few = "; for 1 call a document, name one judge and --protocol graded"
            raise ValueError(
                f"calls_per_document: {grades} and {rings} take {needed}, not "
                f"{self.calls_per_document:g}{few if self.calls_per_document < 2 else ''}"
            )
        return self

    def usual_grades(self) -> int:
        """Return how many judges at most grade each document where no option says it."""
        return 1

    def first_round(self, judges: int | None) -> tuple[int, int]:
        """Return the grades of each document and the rings of battles: as given, or by the calls.

        Args:
            judges: the size of the panel; None: not known.
        """
        wanted = self.grades_per_document or self.usual_grades()
        grades = max(1, min(wanted, judges or wanted))
        calls = self.calls_per_document + 1 - grades
        return grades, self.rings or (1 if calls < 3 else 2 if calls < 6 else 4)


class AutoOptions(LeanOptions):
    """Options of a way of judging that is chosen by the calls that there are."""

    protocol: Annotated[str, JUDGING] = Field("auto", description="way of judging")

    def usual_grades(self) -> int:
        """Return how many grades can be paid for beside the battles."""
        return floor(self.calls_per_document) - (self.rings or 1)


Pooling = Literal["mean", "thurstone", "median", "majority"]


def _choose_pooling(value: Any, info: ValidationInfo) -> Any:
    """Return how grades are pooled by default, but of a record only what it says."""
    if value is not None or info.context == RECORDED:
        return value
    return "thurstone" if info.data.get("human") else "mean"


class GradedOptions(GradingOptions, TemplateOptions):
    """Options of grades alone."""

    template_form = TemplateForm(
        prompt="graded",
        documents=(("document", "document", "document"),),
        optional=tuple((name, name) for name in ("instructions", "grades", "examples")),
    )

    human: Human = None
    pooling: Annotated[Pooling | None, BeforeValidator(_choose_pooling), NO_FLAG] = Field(
        None,
        validate_default=True,
        description="how a panel's grades become one: mean, thurstone, median or majority; without "
        "it the mean, and thurstone where there are human grades",
    )
    ambiguous: Annotated[float, NO_FLAG] = Field(
        1.5, gt=0, description="mean difference of two judges' grades that marks a split panel"
    )


def pooling_of(pooling: str | None, *, human: bool) -> str:
    """Return how the grades of a run are pooled.

    Args:
        pooling: the option; None: as runs of 0.1 did that did not say.
        human: whether there are human grades.
    """
    return pooling or ("thurstone" if human else "median")


def is_plain(options: Mapping[str, Any]) -> bool:
    """Return whether the scores of a graded run treat all judges alike, by its options."""
    return recorded_pooling(options) != "thurstone"


def recorded_pooling(options: Mapping[str, Any]) -> str:
    """Return how the grades of a run are pooled, by its options: those by criteria by their mean.

    Args:
        options: as the record of the run has them; ``criteria`` is of that protocol alone.
    """
    if "criteria" in options:
        return "mean"
    return pooling_of(options.get("pooling"), human=bool(options.get("human")))


USUAL = (
    "relevance=2: it answers what the query asks for",
    "accuracy: what it says is right, and nothing that matters in it is made up",
    "completeness: it deals with every part of what is asked",
    "clarity: the person who asked can follow and use it",
)
"""The criteria of a job that names none."""
_CRITERION = re.compile(r"([a-z][a-z0-9_]*)\s*(?:=\s*([0-9.]+))?\s*(?::\s*(.+))?")
_MOST = 12
"""Criteria that one answer may grade."""


class Criterion(NamedTuple):
    """A criterion: its name, its weight, and what it asks of a document."""

    name: str
    weight: float
    meaning: str


def parse_criterion(text: str) -> Criterion:
    """Read a criterion as ``name=weight: meaning``; weight and meaning may be left out.

    Raises:
        ValueError: it is not of this form.
    """
    match = _CRITERION.fullmatch(text.strip())
    if not match:
        raise ValueError(
            f"{text[:60]!r} is no criterion; write name=weight: meaning, such as accuracy=2: what "
            "it says is right (names of small letters, digits and _)"
        )
    name, weight, meaning = match.groups()
    try:
        number = float(weight or 1)
    except ValueError:
        raise ValueError(f"{text[:60]!r}: the weight {weight!r} is not a number") from None
    if not number > 0:
        raise ValueError(f"{text[:60]!r}: the weight must be above 0")
    return Criterion(name, number, (meaning or "").strip())


def _read_criteria(texts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Return the criteria, a text each; a single text may be a file with a line for each.

    Raises:
        ValueError: one is wrong, two have one name, or they are too many.
    """
    if info.context == FROM_USER and len(texts) == 1:
        texts = tuple(line for line in read_text_or_literal(texts[0]).splitlines() if line.strip())
    names = [parse_criterion(text).name for text in texts]
    if taken := next((name for name in names if _cannot_be_a_field(name)), ""):
        raise ValueError(f"a criterion cannot be called {taken}; give it another name")
    if clash := next((name for name in names if f"{name}_error" in names), ""):
        raise ValueError(
            f"a criterion cannot be called {clash}_error beside {clash}, whose error is a column "
            "of that name; give it another name"
        )
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"two criteria are called {twice}")
    if len(names) > _MOST:
        raise ValueError(f"give at most {_MOST} criteria, not {len(names)}")
    return tuple(text.strip() for text in texts)


def _cannot_be_a_field(name: str) -> bool:
    """Return whether answers cannot have a field of this name, as their model has its own."""
    return name.startswith("model_") or hasattr(BaseModel, name) or name == "synthesize"


class CriteriaOptions(AnnotateOptions):
    """Options of grades by several criteria."""

    criteria: Annotated[tuple[str, ...], AfterValidator(_read_criteria)] = Field(
        (),
        description="criteria, each as 'name=weight: meaning', or a file with a line for each; "
        "without it relevance, accuracy, completeness and clarity",
    )
    repeats: Repeats = 1
    human: Human = None
    ambiguous: Annotated[float, NO_FLAG] = Field(
        1.5, gt=0, description="mean difference of two judges' grades that marks a split panel"
    )

    @property
    def parsed_criteria(self) -> tuple[Criterion, ...]:
        """Return the criteria, in their order."""
        return tuple(map(parse_criterion, self.criteria or USUAL))

    @property
    def as_graded(self) -> GradedOptions:
        """Return the options by which each criterion's grades are pooled: by their mean."""
        names = ("inputs", "out", "repeats", "human", "ambiguous", "min_coverage")
        values = {name: getattr(self, name) for name in names}
        return GradedOptions.model_construct(**values, pooling="mean")


class ListwiseOptions(AnnotateOptions):
    """Options of listwise votes."""

    group: Annotated[int, NO_FLAG] = Field(
        8, ge=3, le=50, description="documents that a judge orders in one call, at most"
    )
    looks: Annotated[int, NO_FLAG] = Field(
        3, ge=2, description="calls that each document is in, beside others each time, by one judge"
    )
    votes: Annotated[Literal["all", "one"], NO_FLAG] = Field(
        "all", description="who votes on a pair: all judges, or one of them in turn"
    )
    prior_sd: PriorSd = 2.5
    repeats: Repeats = 1
    human: Human = None


class BestOfOptions(BattleOptions, TemplateOptions):
    """Options of tournaments; those of battles are for ``order="zelo"``, and for scores."""

    template_form = TemplateForm(
        prompt="best-of",
        query="question",
        documents=(("answer_1", "answer 1", "first"), ("answer_2", "answer 2", "second")),
        optional=(("instructions", "criteria"),),
    )

    order: Literal["input", "random", "zelo"] = Field(
        "input",
        description="best-of: who is king first and who challenges next; zelo: by zELO score, the "
        "best first (asks its battles, too)",
    )


class PairingOptions(AnnotateOptions):
    """Options of debate and its baselines."""

    cycles: Cycles = 4
    prior_sd: PriorSd = 2.5
    human: Human = None
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
    "lean": LeanOptions,
    "auto": AutoOptions,
    "graded": GradedOptions,
    "criteria": CriteriaOptions,
    "zelo+graded": ZeloGradedOptions,
    "listwise-votes": ListwiseOptions,
    "best-of": BestOfOptions,
    "samre": RoundsOptions,
    "baseline-strong": RoundsOptions,
    "baseline-weak": PairingOptions,
}
"""By protocol of the package."""
