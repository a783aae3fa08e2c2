"""Describe queries by what their texts show: their length, and the writing system."""

import unicodedata
from collections import Counter

LENGTH = "query length (words)"
SCRIPT = "writing system"
TRAITS = (LENGTH, SCRIPT)
LENGTHS = ("1-2", "3-5", "6-10", "11-20", "21+")
_LAST = (2, 5, 10, 20)
_SCRIPTS = {"CJK": "Han", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}
"""Writing systems by the first word of a character's Unicode name, where that is not their name."""
_WITHOUT_SPACES = {"Han", "Japanese", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}
"""Writing systems that put no spaces between words, so that these cannot be counted here."""


def describe_query(text: str) -> dict[str, str]:
    """Return the traits of a query, by name, as far as its text shows them.

    The writing system is that of most letters; kana make a text Japanese, whatever else is there.
    It does not tell languages apart that share one.
    """
    scripts = Counter(_script_of(letter) for letter in text if letter.isalpha())
    script = (
        "Japanese" if "Japanese" in scripts else max(scripts, key=scripts.__getitem__, default="")
    )
    traits = {SCRIPT: script} if script else {}
    words = len(text.split())
    if words and script not in _WITHOUT_SPACES:
        traits[LENGTH] = LENGTHS[sum(words > last for last in _LAST)]
    return traits


def _script_of(letter: str) -> str:
    first = unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]
    return _SCRIPTS.get(first, first.capitalize())
