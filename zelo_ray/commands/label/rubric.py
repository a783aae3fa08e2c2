"""What the grades mean, in words for people."""

import re

RUBRIC = """\
Does this text answer the query? Judge the text alone, and by what it says, not by how well.

3 Answers it: somebody who asked this needs no other text.
2 Answers in part: or the answer is there but hard to find, or unclear.
1 Related: it is about the matter, but does not answer.
0 Not relevant: it has nothing to do with the query.

"Cannot say" is for texts that you cannot judge: another language, broken, beyond what you know.
"""
_BLANK = r"[^\S\n]*"
_NAMED = re.compile(
    rf"^[^\w\n]*(\d){_BLANK}[:.=)-]?{_BLANK}([^:.,;(\n]+)",
    re.MULTILINE,
)
_LONGEST = 24  # characters that a button of a phone shows


def names_of(rubric: str, top: int) -> list[str]:
    """A few words for each grade, from the lines of a rubric that begin with it; or none."""
    found = {int(digit): " ".join(words.split()) for digit, words in _NAMED.findall(rubric)}
    names = [found.get(grade, "") for grade in range(top + 1)]
    return [name if len(name) <= _LONGEST else "" for name in names]
