"""Ask for a document by its query alone.

A judge that writes down whole runs of a document, which it is not shown, has read it; and labels of
a public collection lie beside its documents. That language models recite test data they were
trained on was shown by Carlini et al. (2023, ICLR, arXiv 2202.07646); asking for the rest of an
instance to find it is of Golchin & Surdeanu (2024, ICLR, arXiv 2308.08493).
"""

from zelo_ray.evaluation.probes.kind import ProbeKind

PROBE = ProbeKind(
    name="recall",
    does="is not shown: judges write what they remember of it",
    change=None,
    wrong="up",
    up="writes documents of these queries down from memory, word for word",
    down="repeats documents of other queries rather than of those that it is asked for",
    advice="Measure it on queries and documents of your own that are not public",
    least=0.02,  # abstracts of one topic and other authors: .009, by benchmarks/probes.py
    is_of_memory=True,
)
