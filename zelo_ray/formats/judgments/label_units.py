"""Define what people are asked about: a document, or a pair of documents of a query."""

from dataclasses import dataclass

Ids = tuple[str, ...]
"""Ids of a query and its document, or of a query and two documents."""


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """An answer that people can give: its key on the page, and the number that is stored.

    ``value`` is None for "cannot say"; ``word`` stands for the answer in files.
    """

    key: str
    value: float | None
    word: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class LabelUnit:
    """Define the kind of thing that one answer is about.

    ``ids`` and ``texts`` are the columns of the sample's file, ``answer`` is the field of an
    answer's line and ``column`` that of a spreadsheet.
    """

    name: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    answer: str
    column: str
    choices: tuple[AnswerChoice, ...]
    """the answers but for "cannot say\""""

    @property
    def file(self) -> str:
        """Return the name of the file that holds all that could be drawn, by priority."""
        return f"{self.name}s.parquet"

    @property
    def values(self) -> list[float]:
        """Return the numbers that answers are stored as."""
        return [choice.value for choice in self.choices if choice.value is not None]

    @property
    def words(self) -> str:
        """Return the answers in words, as for a message on a spreadsheet."""
        if self.answer == "grade":
            return f"a grade from {self.choices[0].word} to {self.choices[-1].word}"
        return ", ".join(choice.word for choice in self.choices)

    def name_ids(self, ids: Ids) -> str:
        """Name a document, or a pair, in a message."""
        documents = " and ".join(map(repr, ids[1:]))
        plural = "s" if ids[2:] else ""
        return f"document{plural} {documents} of query {ids[0]!r}"


CANNOT_SAY = AnswerChoice("u", None, "u", "Cannot say")
TOP = 3
"""The highest grade."""
DOCUMENT = LabelUnit(
    name="document",
    ids=("query_id", "doc_id"),
    texts=("document",),
    answer="grade",
    column="grade",
    choices=tuple(AnswerChoice(str(grade), float(grade), str(grade)) for grade in range(TOP + 1)),
)
"""A document that people grade."""
PAIR = LabelUnit(
    name="pair",
    ids=("query_id", "doc_id_a", "doc_id_b"),
    texts=("document_a", "document_b"),
    answer="preference",
    column="better",
    choices=(
        AnswerChoice("a", -1.0, "A", "A is better"),
        AnswerChoice("b", 1.0, "B", "B is better"),
        AnswerChoice("t", 0.0, "tie", "Tie"),
    ),
)
"""Two documents of which people say which is better; negative: the first."""
UNITS = {unit.name: unit for unit in (DOCUMENT, PAIR)}
