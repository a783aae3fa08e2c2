"""Names say what they hold, and docstrings what is done: neither gets worse."""

from benchmarks.words import count_words
from tests.crash import ROOT

RESPONSE_MODELS = ("Choice", "Feedback", "Traits")
"""Their docstrings are a part of what judges are sent, and of the keys of replies."""


def test_few_names_are_without_a_subject_and_docstrings_begin_with_no_question():
    count = count_words(ROOT / "zelo_ray")
    assert count.vague_share < 0.006, count.vague
    asking = [place for place in count.questions if not place.endswith(RESPONSE_MODELS)]
    assert not asking


def test_words_are_counted(tmp_path):
    (tmp_path / "code.py").write_text('def f(found, row):\n    """What it is."""\n    told = row\n')
    count = count_words(tmp_path)
    assert (count.bindings, count.vague) == (3, {"found": 1, "told": 1})
    assert (count.docstrings, len(count.questions)) == (1, 1)
