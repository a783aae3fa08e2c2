"""Show a comparison of labels on the terminal, in at most 100 characters a line."""

from collections.abc import Iterator, Sequence
from math import isnan

from zelo_ray.commands.compare_labels import Compared
from zelo_ray.commands.compare_labels.boards import Boards, Standing
from zelo_ray.commands.compare_labels.contradictions import Contradiction, of_queries
from zelo_ray.formats.wording import counted, middle_out

_ROWS, _SIBLINGS, _QUERIES, _DOCUMENTS = 40, 20, 10, 3
_NAME, _ID = 24, 24  # characters of a run, and of a document
_QUERY = ("query", "queries")


def told(compared: Compared) -> list[str]:
    """Return all lines to print."""
    boards, cuts = compared.boards, (compared.positive, compared.relevant)
    lines = (
        [*board_lines(boards, compared.measure), "", *sibling_lines(boards), ""] if boards else []
    )
    lines += contradiction_lines(compared.contradictions, compared.queries, *cuts)
    return lines + [f"note: {note}" for note in compared.notes]


def board_lines(boards: Boards, measure: str) -> Iterator[str]:
    """Yield both leaderboards side by side, with the runs that moved."""
    queries = counted(boards.queries, *_QUERY)
    yield f"{measure} over the {queries} that both labels know, 95% intervals"
    head = ("run", "old", "", "rank", "new", "", "rank", "moved")
    rows = [_row(standing) for standing in boards.standings[:_ROWS]]
    yield from table([head, *rows], "<><>><>>"[: len(head)])
    yield from _left_out(len(boards.standings) - _ROWS, "run", "leaderboards.parquet")
    pairs = len(boards.standings) * (len(boards.standings) - 1) // 2
    if pairs:
        ends = [
            f"{t.coefficient} {_size(t.value, '.3f')}{_interval(t.low, t.high)}"
            for t in boards.taus
        ]
        old, new = boards.apart
        yield ""
        yield f"The two orders agree by {', '.join(ends)} (rough)."
        of = counted(pairs, "pair of runs", "pairs of runs")
        yield f"Of {of} {old:,} differ significantly by the old labels, {new:,} by the new."
        if boards.turned:
            turned = counted(boards.turned, "pair is", "pairs are")
            yield f"{turned} significant by both labels, and the other way round."
    for run, count in boards.missing.items():
        yield f"{_cut(run)} did not rank {count:,} of the queries: 0 in its means"


def sibling_lines(boards: Boards) -> Iterator[str]:
    """Yield the gaps between neighbours of the new leaderboard, under both labels."""
    by_new = [sibling for sibling in boards.siblings if sibling.board != "old"]
    if not by_new:
        return
    yield "Neighbours by the new labels: the gap in Cohen's d (mean difference over the queries, in"
    yield "standard deviations of that difference); * significant, after Holm over all pairs"
    rows = [("above", "below", "old d", "", "new d", "", "")]
    for pair in by_new[:_SIBLINGS]:
        names = _cut(pair.run_a), _cut(pair.run_b)
        marks = ["*" if apart else "" for apart in (pair.old_apart, pair.new_apart)]
        gaps = [_size(d, "+z.2f") for d in (pair.old_d, pair.new_d)]
        of = f"of {counted(pair.queries, *_QUERY)}" if pair.queries < boards.queries else ""
        rows.append((*names, gaps[0], marks[0], gaps[1], marks[1], of))
    yield from table(rows, "<<><><<")
    yield from _left_out(len(by_new) - _SIBLINGS, "gap", "siblings.parquet")
    old, new = (_size(size) for size in boards.sizes)
    yield f"The median |d| over all pairs of runs is {old} by the old labels, and {new} by the new:"
    yield "compare labels by it; in the table, neighbours are close on the board that chose them"


def contradiction_lines(
    contradictions: Sequence[Contradiction], queries: int, positive: float, relevant: float
) -> Iterator[str]:
    """Yield the queries whose old labels the new ones contradict, worst first."""
    by_query = [*of_queries(contradictions)]
    kinds = [contradiction.kind for contradiction in contradictions]
    beaten = sum(group[0].best for _, group in by_query)
    against = f"{len(by_query):,} of {counted(queries, 'query is', 'queries are')} contradicted"
    yield f"{against} (old positive: from {positive:g} on; new relevant: from {relevant:g} on):"
    positives = counted(kinds.count("positive"), "old positive is", "old positives are")
    yield f"  {positives} not relevant by the new labels"
    negatives = counted(kinds.count("negative"), "old negative is", "old negatives are")
    yield f"  {negatives} relevant by the new labels"
    unjudged = counted(kinds.count("unjudged"), "document is", "documents are")
    yield f"  {unjudged} relevant by the new labels, and unknown to the old"
    yield f"  {counted(beaten, *_QUERY)} whose best document was no positive"
    for query_id, group in by_query[:_QUERIES]:
        yield ""
        yield f"query {query_id}{': the best was no positive' if group[0].best else ''}"
        for document in group[:_DOCUMENTS]:
            was = "unjudged" if isnan(document.old) else f"{document.kind} ({document.old:g})"
            split = ", the panel is split" if document.ambiguous else ""
            yield f"  {_cut(document.doc_id, _ID)}: {was}, now {document.new:g}{split}"
            if document.text:
                yield f"    {document.text}"
        if len(group) > _DOCUMENTS:
            yield f"  … and {len(group) - _DOCUMENTS:,} more"
    if by_query:
        yield ""
    yield from _left_out(len(by_query) - _QUERIES, "query", "contradictions.parquet", "queries")


def table(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Yield rows in columns, two blanks apart; ``sides`` has < (left) or > (right) per column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def _row(row: Standing) -> tuple[str, ...]:
    moved = f"{row.moved:+d}" if row.moved else "="
    return (
        _cut(row.run),
        *(f"{row.old:.4f}", _interval(row.old_low, row.old_high).strip(), str(row.old_rank)),
        *(f"{row.new:.4f}", _interval(row.new_low, row.new_high).strip(), str(row.new_rank)),
        moved,
    )


def _interval(low: float, high: float) -> str:
    return "" if isnan(low) else f" [{low:.3f}, {high:.3f}]"


def _cut(name: str, width: int = _NAME) -> str:
    return middle_out(name, width)


def _size(value: float, form: str = ".2f") -> str:
    return "-" if isnan(value) else f"{value:{form}}"


def _left_out(number: int, singular: str, file: str, plural: str = "") -> Iterator[str]:
    if number > 0:
        what = counted(number, f"more {singular}", f"more {plural}" if plural else "")
        yield f"… and {what}: --out has all in {file}"
