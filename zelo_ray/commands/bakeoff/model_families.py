"""Find rankers of the same model family as judges of the truth."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from zelo_ray.errors import OptionError
from zelo_ray.families import families_of
from zelo_ray.names import did_you_mean

TRUTH = "truth"
"""Stands for the judges of a truth that does not name its judges."""
Families = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class FamilyOverlap:
    """The model families of the truth's judges (empty if they are unknown) and of the rankers."""

    judges: Families
    rankers: Families

    def shared_families(self, ranker: str) -> frozenset[str]:
        """Return the families that a ranker shares with judges of the truth."""
        return self.rankers[ranker] & frozenset(chain.from_iterable(self.judges.values()))

    def judges_like(self, ranker: str) -> frozenset[str]:
        """Return the judges that share a family with a ranker."""
        return frozenset(
            name for name, families in self.judges.items() if families & self.rankers[ranker]
        )

    @property
    def judges_by_ranker(self) -> dict[str, frozenset[str]]:
        """Return, by ranker, the judges of its families, for rankers that have any."""
        return {ranker: kin for ranker in self.rankers if (kin := self.judges_like(ranker))}

    @property
    def judges_by_family(self) -> dict[str, frozenset[str]]:
        """Return the judges of each family of the truth, in alphabetical order."""
        names = sorted(set(chain.from_iterable(self.judges.values())))
        return {
            name: frozenset(judge for judge, families in self.judges.items() if name in families)
            for name in names
        }


def find_family_overlap(
    judges: Iterable[str], rankers: Mapping[str, str], declared: Mapping[str, Iterable[str]]
) -> FamilyOverlap:
    """Return the families of all judges and rankers, as declared or by their names.

    Args:
        judges: of the truth; empty if they are unknown.
        rankers: by the name of each ranker, what it is: a reranker, a judge, or a run's tag.
        declared: by judge or ranker, its families; `TRUTH` stands for unknown judges.

    Raises:
        OptionError: a name is neither a ranker nor a judge of the truth.
    """
    families = {
        name: frozenset(family.lower() for family in names) for name, names in declared.items()
    }
    judge_names = sorted(judges) or ([TRUTH] if TRUTH in families else [])
    for name in families:
        if name not in {*judge_names, *rankers}:
            raise OptionError(
                f"families: {name}: {_describe_unknown_name(name, judge_names, rankers)}"
            )
    return FamilyOverlap(
        {name: families.get(name, families_of(name)) for name in judge_names},
        {name: families.get(name, families_of(what)) for name, what in rankers.items()},
    )


def _describe_unknown_name(name: str, judges: Iterable[str], rankers: Mapping[str, str]) -> str:
    if name == TRUTH:
        return f"the truth names its judges: {', '.join(judges)}"
    names = [*rankers, *judges]
    return (
        f"is neither a ranker nor a judge of the truth{did_you_mean(name, names)}; there are "
        f"{', '.join(names)}"
    )
