"""State that the document is popular, or from a source of repute.

Neither says whether it answers the query. That language models believe cited authorities and what
many are said to believe was found by Chen et al. (2024, EMNLP, arXiv 2402.10669) and Ye et al.
(2024, arXiv 2410.02736).
"""

from zelo_ray.evaluation.probes.kind import ProbeKind, Subject

LINES = (
    "Source: a leading international encyclopaedia. Cited by 12,000 other works.",
    "Cited by 12,000 publications.",
    "Source: a well known university. Cited by 4,800 other works and read by millions.",
)


def _praise(subject: Subject) -> str:
    return f"{subject.luck.choice(LINES)}\n\n{subject.text}"


PROBE = ProbeKind(
    name="popularity",
    does="with a line that calls it popular or from a source of repute",
    change=_praise,
    wrong="up",
    up="finds a document more relevant if it is said to be popular or of repute",
    down="finds a document less relevant if it is said to be popular or of repute",
    advice=(
        "Say in --instructions that source and popularity do not count, and leave such fields out "
        "of --show-metadata"
    ),
)
