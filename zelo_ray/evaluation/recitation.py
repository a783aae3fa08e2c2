"""Find what an answer repeats word for word of a document.

Runs of thirteen words that stand in both are hardly ever chance; they are what Brown et al. (2020,
arXiv 2005.14165, appendix C) looked for test data in training data by. Runs of eight are not rare
among texts of one topic: `benchmarks/probes.py` counts both.
"""

import re
import unicodedata
from dataclasses import dataclass

RUN = 13
"""The fewest words in a row that count as repeated."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Letters of scripts that put no spaces between words: Thai to Khmer, kana, Han."""
_MARKS = "".join(
    letter for letter in map(chr, range(0x300, 0x10000)) if unicodedata.category(letter)[0] == "M"
)
"""Vowel signs and accents, which go on with a word."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}](?:[^\W{_UNSPACED}]|[{_MARKS}])*")


@dataclass(frozen=True, slots=True)
class Repeated:
    """Count of an answer's words that a document has in a row, too, and the longest run of them."""

    words: int
    of: int
    run: str

    @property
    def share(self) -> float:
        """Return the share of the answer's words that are repeated, from 0 to 1."""
        return self.words / self.of if self.of else 0.0


def find_repeated(answer: str, document: str, query: str = "", run: int = RUN) -> Repeated:
    """Find the runs of words that an answer and a document share, whatever their case and signs.

    In scripts without spaces a letter counts as half a word. Runs that the query has, too, do not
    count: whoever writes them may have them from there. Fewer than ``run`` words never count.
    """
    answer = unicodedata.normalize("NFC", answer)
    matches = [*_WORD.finditer(answer)]
    words = [match[0].casefold() for match in matches]
    letters = sum(bool(re.match(f"[{_UNSPACED}]", word)) for word in words)
    size = 2 * run if 2 * letters > len(words) else run
    places = dict[tuple[str, ...], list[int]]()
    for at in range(len(words) - size + 1):
        places.setdefault(tuple(words[at : at + size]), []).append(at)
    for gram in _grams(query, size):
        places.pop(gram, None)
    repeated = {
        place
        for gram in (places and _grams(document, size)) or ()
        for at in places.get(gram, ())
        for place in range(at, at + size)
    }
    first, last = _longest(repeated)
    longest = answer[matches[first].start() : matches[last].end()] if repeated else ""
    return Repeated(len(repeated), len(words), longest)


def _grams(text: str, size: int) -> set[tuple[str, ...]]:
    words = [word.casefold() for word in _WORD.findall(unicodedata.normalize("NFC", text))]
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def _longest(places: set[int]) -> tuple[int, int]:
    """Return the first and the last of the most numbers in a row, the first such run."""
    best = (0, -1)
    for start in sorted(place for place in places if place - 1 not in places):
        end = start
        while end + 1 in places:
            end += 1
        if end - start > best[1] - best[0]:
            best = (start, end)
    return best
