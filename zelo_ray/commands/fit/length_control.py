"""Control scores for the length of the documents: what a score is beside what length explains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from zelo_ray.errors import InputError, OptionError
from zelo_ray.fitting.covariate import CovariateFit, fit_with_covariate
from zelo_ray.fitting.outcomes import Floats, Games, Ints
from zelo_ray.formats.files import part_files
from zelo_ray.formats.run_record import run_directory
from zelo_ray.formats.text_lengths import Item, read_lengths
from zelo_ray.formats.wording import counted
from zelo_ray.options.fit import FitOptions


@dataclass(frozen=True, slots=True)
class QueryGames:
    """The games of one query; items are their places in ``names``."""

    query_id: str
    names: Sequence[str]
    games: Games


@dataclass(frozen=True, slots=True)
class ControlledScore:
    """A score beside what length explains, in logits, and the document's length in characters."""

    score: float
    std_error: float
    length: float


NOT_CONTROLLED = ControlledScore(nan, nan, nan)


@dataclass(frozen=True, slots=True)
class LengthControl:
    """Length-controlled scores, and what a doubling of the length is worth, in logits."""

    scores: Mapping[Item, ControlledScore]
    fit: CovariateFit
    notes: tuple[str, ...]


def control_length(queries: Sequence[QueryGames], options: FitOptions) -> LengthControl:
    """Fit all queries again, beside one coefficient of length.

    Games of a document of unknown length are left out, and it gets no such score.

    Args:
        queries: those that have scores.
        options: of the command.

    Raises:
        OptionError: no place of the texts is named or known.
        InputError: the texts cannot be read, or are of other documents.
    """
    places = options.texts or _own_texts(options.source)
    if not places:
        raise OptionError("--control length: needs the documents: --texts FILE, such as the pools")
    items = [(query.query_id, name) for query in queries for name in query.names]
    lengths, bad = read_lengths(places, items)
    if np.isnan(lengths).all():
        raise InputError(f"{', '.join(places)}: has the text of no document that was compared")
    starts = np.cumsum([0, *(len(query.names) for query in queries)])
    parts = [
        _known_games(query, lengths[start : start + len(query.names)])
        for query, start in zip(queries, starts[:-1], strict=True)
    ]
    controlled = [(query, *part) for query, part in zip(queries, parts, strict=True) if part]
    if not controlled:
        raise InputError("--control length: no two documents that met have texts")
    fit = fit_with_covariate(
        [games for _, games, _, _ in controlled], [x for _, _, x, _ in controlled], options.prior_sd
    )
    scores = dict[Item, ControlledScore]()
    known_lengths = dict(zip(items, lengths.tolist(), strict=True))
    columns = zip(controlled, fit.scores, fit.std_errors, strict=True)
    for (query, _, _, numbers), values, errors in columns:
        rows = zip(numbers.tolist(), values.tolist(), errors.tolist(), strict=True)
        for at, value, error in rows:
            item = (query.query_id, query.names[at])
            scores[item] = ControlledScore(value, error, known_lengths[item])
    return LengthControl(scores, fit, tuple(_notes(lengths, bad)))


def _own_texts(source: str) -> tuple[str, ...]:
    """Return the files of texts beside the votes of a run of annotate, if there are any."""
    return tuple(part_files(f"{run_directory(source)}/annotated.jsonl"))


def _known_games(query: QueryGames, lengths: Floats) -> tuple[Games, Floats, Ints] | None:
    """Return the games between documents of known length, their covariate, and these documents.

    The covariate is the binary logarithm of the ratio of lengths: doublings. None without a game.
    """
    games, places = query.games, np.flatnonzero(~np.isnan(lengths))
    number = np.full(len(lengths), -1)
    number[places] = np.arange(len(places))
    first, second = number[games.first], number[games.second]
    mask = (first >= 0) & (second >= 0)
    if not mask.any():
        return None
    doublings = np.log2(lengths[places])
    known_games = Games(
        items=len(places),
        first=first[mask],
        second=second[mask],
        won=games.won[mask],
        lost=games.lost[mask],
        tied=games.tied[mask],
    )
    return known_games, doublings[known_games.first] - doublings[known_games.second], places


def _notes(lengths: Floats, bad: Sequence[str]) -> Iterator[str]:
    if unknown := int(np.isnan(lengths).sum()):
        documents = counted(unknown, "document")
        yield f"{documents} without a text that is known: no length-controlled score"
    if bad:
        yield f"--texts: skipped {counted(len(bad), 'invalid line')}, the first: {bad[0]}"
