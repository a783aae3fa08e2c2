"""Say which rankers differ significantly, and if not, why not."""

from collections.abc import Mapping

from zelo_ray.evaluation.significance import Significance, significance_of
from zelo_ray.records import Comparison
from zelo_ray.report.model import name_some

_NAMED = 5
_WORDS = {
    Significance.BELOW: ("significant", "is significantly below {} where both ranked"),
    Significance.NOT_SIGNIFICANT: ("not significant", "does not differ significantly from {}"),
    Significance.LABELS_COULD_TURN_IT: (
        "labels unsure",
        "differs from {}, but other answers of the judges could turn that",
    ),
    Significance.ONLY_BY_OWN_FAMILY: (
        "own family only",
        "differs from {}, but only by judges of a ranker's own model family",
    ),
    Significance.TOO_FEW_QUERIES: ("too few queries", "cannot be compared with {}"),
    Significance.TOO_FEW_LABELS: ("too few labels", "cannot be compared with {} by so few labels"),
    Significance.ABOVE: ("significant", "is significantly above {}"),
}
"""The cell of a table, and the clause with the names of others, in the order of a sentence."""


def significance_cell(row: Comparison) -> str:
    """Return the significance of a comparison for a cell of a table."""
    families = f" ({row.family})" if row.family else ""
    return _WORDS[significance_of(row)][0] + families


def compare_leader(leader: str, rivals: Mapping[str, Significance]) -> str:
    """Say how a leader, who is A, compares with others, by their names; empty without any."""
    clauses = []
    for significance, (_, clause) in _WORDS.items():
        names = [name for name, found in rivals.items() if found is significance]
        if names:
            everyone = len(names) == len(rivals) > _NAMED
            others = f"all {len(names)} others" if everyone else name_some(names, _NAMED)
            clauses.append(clause.format(others))
    return f"{leader} {'; it '.join(clauses)}." if clauses else ""
