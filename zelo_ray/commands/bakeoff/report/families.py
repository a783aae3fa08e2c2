"""Say which rankers share a model family with judges of the truth."""

from itertools import islice

from zelo_ray.commands.bakeoff.model_families import TRUTH
from zelo_ray.commands.bakeoff.report.results import BakeoffResults

_NAMED = 8


def family_banner(results: BakeoffResults) -> str:
    """Name the rankers that are of the same model family as judges; empty if there are none."""
    rankers = results.families.get("rankers", {})
    if not rankers:
        return ""
    warning = (
        "Self-preference: judges of the truth are of the same model family as rankers, and may "
        "favour them. No difference is called significant that only they support."
    )
    sentences = [warning]
    for name, shared in islice(rankers.items(), _NAMED):
        judges = ", ".join(shared["judges"])
        who = "unnamed judges" if judges == TRUTH else judges
        sentences.append(f"{name} ({', '.join(shared['families'])}) is judged by {who}.")
    if len(rankers) > _NAMED:
        sentences.append(f"So are {len(rankers) - _NAMED:,} more: see run.json.")
    sentences += [f"Without {name}: {why}." for name, why in results.families["untold"].items()]
    return " ".join(sentences)
