"""Put the query's words into the text, where they answer nothing.

They stand before the text, or after one of its first words. Many models find passages relevant that
merely contain the query (Alaofi et al. 2024, SIGIR-AP, arXiv 2501.17969).
"""

import re

from zelo_ray.evaluation.probes.kind import ProbeKind, Subject

_AMONG = 50  # words: where the text begins, which is shown of the longest document, too


def _stuff(subject: Subject) -> str:
    gaps = [0, *(match.end() for match in re.finditer(r"\s+", subject.text))][:_AMONG]
    at = subject.luck.choice([0, subject.luck.choice(gaps)])
    query = " ".join(subject.query.split())
    return f"{subject.text[:at]}{query} {subject.text[at:]}"


PROBE = ProbeKind(
    name="stuffing",
    does="with the query's words put into it",
    change=_stuff,
    wrong="up",
    up="finds a document more relevant if the query's words are put into it",
    down="finds a document less relevant if the query's words are put into it",
    advice=(
        "Say in --instructions that words of the query are no answer, or use another model: this "
        "one can be misled by matching words"
    ),
)
