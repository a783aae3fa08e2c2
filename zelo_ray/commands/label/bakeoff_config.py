"""Write the options to measure a bake-off again with people's labels, as a YAML file."""

import yaml

from zelo_ray.commands.label.candidates import Candidates
from zelo_ray.commands.label.texts import pools_of_bakeoff
from zelo_ray.evaluation.measures import parse_measure
from zelo_ray.evaluation.people.correctable_measures import select_correctable
from zelo_ray.families import families_of
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.options.label import LabelOptions

CONFIG_FILE = "contest.yaml"
_ASKING = ("ledger", "reranker_options", "num_gpus", "limits", "prices", "api_key_env", "track")
"""Options of rerankers, which are not needed: the runs of all rankers are stored."""


def make_bakeoff_config(
    candidates: Candidates, contest: BakeoffOptions, options: LabelOptions
) -> str:
    """Return all options of a bake-off as YAML, with its rankers as runs.

    Args:
        candidates: the documents of the bake-off.
        contest: the options of the bake-off.
        options: of `label`, which name the bake-off.
    """
    root = (options.contest or "").rstrip("/")
    needs_pools = contest.rerankers or contest.pools or contest.slices or contest.write_annotated
    settings = contest.model_dump(mode="json", exclude={*_ASKING}) | {
        "rerankers": [],
        "runs": [f"{root}/runs.parquet"],
        "pools": [*pools_of_bakeoff(contest)] if needs_pools else [],
        "human": options.out,
        "out": f"{root}-people",
        "measures": _leading(candidates.measure, contest.measures),
        "families": _families(contest, candidates.rankers),
    }
    config = {name: value for name, value in settings.items() if value not in (None, [], {})}
    head = "# Measure the bake-off again, with people's labels\n"
    return head + yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _leading(drawn_for: str, measures: tuple[str, ...]) -> list[str]:
    """Return the measures, with the one that the sample was drawn for first."""
    first = next((measure for measure in measures if _for_people(measure) == drawn_for), drawn_for)
    return [first, *(measure for measure in measures if measure != first)]


def _for_people(measure: str) -> str:
    """Return the measure that people's labels correct in place of this one; empty if none."""
    chosen, left_out = select_correctable([parse_measure(measure)])
    return "" if left_out else str(chosen[0])


def _families(contest: BakeoffOptions, rankers: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the declared families, and those of rerankers that were given a name.

    As runs, these are known by that name only, which does not reveal their family.
    """
    families = {}
    for text in contest.rerankers:
        name, is_named, spec = text.partition("=")
        if is_named and name in rankers and families_of(spec) != families_of(name):
            families[name] = sorted(families_of(spec))
    lost = {text.partition("=")[0] for text in contest.rerankers} - {*rankers}
    declared = {who: [*names] for who, names in contest.families.items() if who not in lost}
    return families | declared
