"""Find kin in a contest: arms of the same families as judges of the truth."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from zelo_ray.errors import OptionError
from zelo_ray.families import families_of
from zelo_ray.options import meant

TRUTH = "truth"
"""Stands for the judges of a truth that does not name them."""
Families = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Kinship:
    """The families of the judges of the truth (none where they are not known), and of the arms."""

    judges: Families
    arms: Families

    def shared(self, arm: str) -> frozenset[str]:
        """Return the families that an arm shares with judges of the truth."""
        return self.arms[arm] & frozenset(chain.from_iterable(self.judges.values()))

    def kin_of(self, arm: str) -> frozenset[str]:
        """Return the judges that are kin of an arm."""
        return frozenset(
            name for name, families in self.judges.items() if families & self.arms[arm]
        )

    @property
    def of_arms(self) -> dict[str, frozenset[str]]:
        """Return the arms that have kin among the judges, with those judges."""
        return {arm: kin for arm in self.arms if (kin := self.kin_of(arm))}

    @property
    def families(self) -> dict[str, frozenset[str]]:
        """Return the judges of each family of the truth, in alphabetical order."""
        names = sorted(set(chain.from_iterable(self.judges.values())))
        return {
            name: frozenset(judge for judge, families in self.judges.items() if name in families)
            for name in names
        }


def kinship_of(
    judges: Iterable[str], arms: Mapping[str, str], declared: Mapping[str, Iterable[str]]
) -> Kinship:
    """Return the families of all judges and arms, as declared or by their names.

    Args:
        judges: of the truth; none where they are not known.
        arms: by the name of each arm, what it is: a reranker, a judge, or a run's tag.
        declared: by judge or arm, its families; `TRUTH` where the judges are not known.

    Raises:
        OptionError: a name is neither an arm nor a judge of the truth.
    """
    families = {
        name: frozenset(family.lower() for family in names) for name, names in declared.items()
    }
    judge_names = sorted(judges) or ([TRUTH] if TRUTH in families else [])
    for name in families:
        if name not in {*judge_names, *arms}:
            raise OptionError(f"families: {name}: {_stranger(name, judge_names, arms)}")
    return Kinship(
        {name: families.get(name, families_of(name)) for name in judge_names},
        {name: families.get(name, families_of(what)) for name, what in arms.items()},
    )


def _stranger(name: str, judges: Iterable[str], arms: Mapping[str, str]) -> str:
    if name == TRUTH:
        return f"the truth names its judges: {', '.join(judges)}"
    names = [*arms, *judges]
    return (
        f"is neither an arm nor a judge of the truth{meant(name, names)}; there are "
        f"{', '.join(names)}"
    )
