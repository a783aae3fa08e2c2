"""What a person reads on the terminal after a comparison of labels; 100 characters are enough."""

from collections.abc import Iterator, Sequence
from math import isnan

from zelo_ray.compare.boards import Boards, Standing
from zelo_ray.compare.contradictions import Contradiction, of_queries
from zelo_ray.compare.siblings import Sibling

_ROWS, _SIBLINGS, _QUERIES, _DOCUMENTS = 40, 20, 10, 3
_NAME, _ID = 24, 24  # characters of a run, and of a document
_TEXT = 80


def board_lines(boards: Boards, measure: str) -> Iterator[str]:
    """Both leaderboards side by side, and what moved."""
    yield f"{measure} over the {boards.queries:,} queries that both labels know, 95% intervals"
    head = ("run", "old", "", "rank", "new", "", "rank", "moved")
    rows = [_row(each) for each in boards.standings[:_ROWS]]
    yield from table([head, *rows], "<><>><>>"[: len(head)])
    yield from _left_out(len(boards.standings) - _ROWS, "runs", "leaderboards.parquet")
    pairs = len(boards.standings) * (len(boards.standings) - 1) // 2
    if pairs:
        ends = [f"{t.coefficient} {t.value:.3f}{_interval(t.low, t.high)}" for t in boards.taus]
        old, new = boards.apart
        yield ""
        yield f"The two orders agree by {', '.join(ends)}."
        yield f"Of {pairs:,} pairs of runs the old labels tell {old:,} apart, the new {new:,}."
        if boards.turned:
            yield f"{boards.turned:,} pairs are told apart by both, and stand the other way round."
    for run, count in boards.missing.items():
        yield f"{_cut(run)} did not rank {count:,} of the queries: 0 in its means"


def sibling_lines(boards: Boards) -> Iterator[str]:
    """The gaps between neighbours of the new leaderboard, under both labels."""
    by_new = [each for each in boards.siblings if each.board != "old"]
    if not by_new:
        return
    yield "Neighbours by the new labels: the gap in Cohen's d (mean difference over the queries, in"
    yield "standard deviations of that difference); * told apart, after Holm over all pairs"
    rows = [("above", "below", "old d", "", "new d", "")]
    for each in by_new[:_SIBLINGS]:
        above, below, sign = _oriented(each)
        marks = ["*" if apart else "" for apart in (each.old_apart, each.new_apart)]
        gaps = [f"{sign * d + 0.0:+.2f}" for d in (each.old_d, each.new_d)]
        rows.append((_cut(above), _cut(below), gaps[0], marks[0], gaps[1], marks[1]))
    yield from table(rows, "<<><><")
    yield from _left_out(len(by_new) - _SIBLINGS, "gaps", "siblings.parquet")


def contradiction_lines(
    found: Sequence[Contradiction], queries: int, positive: float, relevant: float
) -> Iterator[str]:
    """The queries whose old labels the new ones contradict, worst first."""
    by_query = [*of_queries(found)]
    kinds = [each.kind for each in found]
    beaten = sum(group[0].best for _, group in by_query)
    yield (
        f"{len(by_query):,} of {queries:,} queries are contradicted (old positive: from "
        f"{positive:g} on; new relevant: from {relevant:g} on):"
    )
    yield f"  {kinds.count('positive'):,} old positives that are not relevant by the new labels"
    yield f"  {kinds.count('negative'):,} old negatives that are"
    yield f"  {kinds.count('unjudged'):,} documents that are, and that the old labels do not know"
    yield f"  {beaten:,} queries whose best document was no positive"
    for query_id, group in by_query[:_QUERIES]:
        yield ""
        yield f"query {query_id}{': the best was no positive' if group[0].best else ''}"
        for each in group[:_DOCUMENTS]:
            was = "unjudged" if isnan(each.old) else f"{each.kind} ({each.old:g})"
            split = ", the panel is split" if each.ambiguous else ""
            yield f"  {_cut(each.doc_id, _ID)}: {was}, now {each.new:g}{split}"
            if each.text:
                yield f"    {each.text}"
        if len(group) > _DOCUMENTS:
            yield f"  … and {len(group) - _DOCUMENTS:,} more"
    if by_query:
        yield ""
    yield from _left_out(len(by_query) - _QUERIES, "queries", "contradictions.parquet")


def beginning(text: str) -> str:
    """The first 80 characters of a text, on one line."""
    plain = " ".join(text[: 8 * _TEXT].split())
    return plain if len(plain) <= _TEXT else f"{plain[: _TEXT - 1]}…"


def table(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Rows in columns, two blanks apart; ``sides`` are < for left and > for right, one a column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def _row(each: Standing) -> tuple[str, ...]:
    moved = f"{each.moved:+d}" if each.moved else "="
    return (
        _cut(each.run),
        *(f"{each.old:.4f}", _interval(each.old_low, each.old_high).strip(), str(each.old_rank)),
        *(f"{each.new:.4f}", _interval(each.new_low, each.new_high).strip(), str(each.new_rank)),
        moved,
    )


def _oriented(each: Sibling) -> tuple[str, str, int]:
    """A pair as it stands on the new board: with the higher mean there first."""
    if each.board == "both" and each.new < 0:
        return each.run_b, each.run_a, -1
    return each.run_a, each.run_b, 1


def _interval(low: float, high: float) -> str:
    return "" if isnan(low) else f" [{low:.3f}, {high:.3f}]"


def _cut(name: str, width: int = _NAME) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _left_out(number: int, what: str, file: str) -> Iterator[str]:
    if number > 0:
        yield f"… and {number:,} more {what}: --out writes them to {file}"
