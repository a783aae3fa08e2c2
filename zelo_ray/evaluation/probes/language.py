"""Show the same text in another language, from translations that the user gives.

Nothing here translates: a text that a machine made up would be another document.
"""

from zelo_ray.evaluation.probes.kind import ProbeKind, Subject


def _translation(subject: Subject) -> str | None:
    return subject.translation


PROBE = ProbeKind(
    name="language",
    does="in another language",
    change=_translation,
    wrong="either",
    up="finds a document more relevant in the other language",
    down="finds a document less relevant in the other language",
    advice=(
        "Say in --instructions that the language does not count, or translate all documents into "
        "one before they are judged"
    ),
    needs_translation=True,
)
