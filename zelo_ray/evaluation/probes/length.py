"""Say the same text twice.

Nothing is added that the document did not say, in whatever language it is, so its relevance stays
as it is, and the length is doubled exactly. Sentences that say nothing about the query would dilute
the document, and stand in one language. Judges that prefer repetition were found by the repetitive
lists of Zheng et al. (2023, NeurIPS, arXiv 2306.05685, section 3.3).
"""

from zelo_ray.evaluation.probes.kind import ProbeKind, Subject


def _say_twice(subject: Subject) -> str:
    return f"{subject.text}\n\n{subject.text}"


PROBE = ProbeKind(
    name="length",
    does="with its text said twice",
    change=_say_twice,
    wrong="up",
    up="finds a document more relevant if it says everything twice",
    down="finds a document less relevant if it says everything twice",
    advice="Say in --instructions that length and repetition do not count",
)
