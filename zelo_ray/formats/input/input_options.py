"""Define the options on the input, and read the texts that they point to."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from zelo_ray.errors import InputError
from zelo_ray.formats.input.wide import INSIDE
from zelo_ray.formats.interchange.texts import columns_in, read_texts
from zelo_ray.formats.matching_ids import explain_mismatch
from zelo_ray.formats.probe import FileProbe
from zelo_ray.names import did_you_mean
from zelo_ray.records import Document

Part = Literal["corpus", "queries"]
_ROLES: Mapping[Part, Mapping[str, str]] = {
    "corpus": {"id": "doc_id", "text": "content", "title": "title"},
    "queries": {"id": "query_id", "text": "query"},
}
"""By part, what a column of it is for, and the role by which users name it."""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The user's options on the input: files of texts, columns, and the command line."""

    corpus: str | None = None
    queries: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    show: tuple[str, ...] = ()
    """fields of queries that judges are shown"""
    show_metadata: tuple[str, ...] = ()
    """fields of documents that judges are shown"""
    beside_others: bool = False
    """whether columns may be those of other files, such as judgments"""

    def columns_of_input(self, source: FileProbe) -> dict[str, str]:
        """Return the named columns that a file must have.

        Files of texts or of judgments may have the others; fields of documents in a list count.
        """
        elsewhere = {
            role for part, roles in _ROLES.items() for role in roles.values() if getattr(self, part)
        }
        inside = INSIDE if source.kind in ("wide", "pools") else ()
        return {
            role: name
            for role, name in self.columns.items()
            if name in source.names
            or role in inside
            or (role not in elsewhere and not self.beside_others)
        }

    def texts(self, part: Part, wanted: Collection[str] | None = None) -> Iterator[Document]:
        """Yield the documents or queries, read from the columns that the user named.

        Raises:
            InputError: they cannot be read.
        """
        columns = {to: self.columns.get(role, "") for to, role in _ROLES[part].items()}
        return read_texts(getattr(self, part), part, wanted, columns)

    def refuse_missing_columns(self, names: Collection[str]) -> None:
        """Refuse a named column that neither the input nor the files of texts have.

        Args:
            names: the columns of the input.

        Raises:
            InputError: there is one.
        """
        for part, roles in _ROLES.items():
            columns = [self.columns[role] for role in roles.values() if role in self.columns]
            strange, place = [name for name in columns if name not in names], getattr(self, part)
            header = columns_in(place, part, columns) if strange and place else strange
            for name in (name for name in strange if name not in header):
                raise InputError(
                    f"{place}: has no column {name!r}; it has {', '.join(header) or 'none'}"
                    f"{did_you_mean(name, header)}"
                )

    def refuse_unmatched_texts(
        self, part: Part, source: str, ids: Iterable[str], others: Collection[str]
    ) -> None:
        """Refuse texts of which not one has a wanted id.

        Args:
            part: of which no text was found.
            source: what wants texts.
            ids: of those that it wants.
            others: the ids that it wants of the other part.

        Raises:
            InputError: none of the ids is there.
        """
        wanted, place = frozenset(ids), getattr(self, part)
        held = {text.id for text in self.texts(part)}
        if not held or not held.isdisjoint(wanted):
            return
        message = f"no id of {source} is in {place}: " + explain_mismatch(
            source, wanted, str(place), held
        )
        swapped = any(text.id in others for text in self.texts(part))
        more = "; are --corpus and --queries swapped?" if swapped else ""
        raise InputError(message + more)
