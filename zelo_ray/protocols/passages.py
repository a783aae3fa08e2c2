"""Shorten a long document to its best passages, those most like the query, with numbers.

The first stage is free, and follows from the query and this document alone: Okapi BM25 over the
document's own passages, with a share of the better neighbour's, as answers run over edges. Words
are known by their first letters, which does about as well as a stemmer (Can et al. 2008, JASIST
59:407), and texts without spaces by their characters and pairs of them. So is Hangul, whose
particles stand at the ends of words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, log
from unicodedata import normalize

CUT = " […]"
_MARKS = (
    r"\u0300-\u036f\u0591-\u05c7\u0610-\u065f\u0900-\u0963\u0966-\u0eff\u1000-\u109f\u1780-\u17d3"
)
_WORD = re.compile(rf"[\w{_MARKS}]+")
"""A word with its marks, which are no letters to Python."""
_LETTERS = 6
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
_UNSPACED += "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")
"""Thai, Lao, Myanmar, Khmer, kana, Han and Hangul; and what stands between them."""
_ENDS = (
    (re.compile(r"\n\s*\n"), 0.25),
    (re.compile(r"\n"), 0.25),
    (re.compile(r"[.!?\u061f\u0964][\"'\u201d\u2019)\]]*\s|[\u3002\uff01\uff1f]"), 0.5),
    (re.compile(r"\s"), 0.5),
)
"""Where a passage may end, the best first, and how full it is to be then."""
_FORGED = re.compile(r"[\[\uff3b](?=\s*passage\b)", re.IGNORECASE)
_NUMBER = len("[passage 12345 of 12345]\n\n\n")
_LEAST = 16
"""Bytes of a passage that are worth its number."""
_K1, _B = 1.2, 0.75
_NEIGHBOUR = 0.25


def strip_passage_numbers(text: str) -> str:
    """Return a text without anything that looks like a passage number."""
    return _FORGED.sub("(", text)


@lru_cache(512)  # a document is shown to several judges, beside several others
def select_passages(text: str, query: str, size: int, budget: int) -> str:
    """Return the passages of a text that share most with a query, in order, with numbers.

    The last that is taken is cut to what room there is.
    """
    passages = split_passages(text, size - _NUMBER)
    overlaps = [0.0, *score_passages(query, passages), 0.0]
    worth = [
        b + _NEIGHBOUR * max(a, c)
        for a, b, c in zip(overlaps, overlaps[1:], overlaps[2:], strict=False)
    ]
    shown, room = dict[int, str](), budget
    for number in sorted(range(len(passages)), key=lambda n: (-worth[n], n)):
        if not passages[number].strip():
            continue
        title = f"[passage {number + 1} of {len(passages)}]\n"
        if room < len(title) + len(CUT.encode()) + _LEAST:
            break
        # Only line breaks are taken off: the first line of code begins with its indentation.
        body = truncate_text(passages[number].strip("\r\n"), room - len(title))
        shown[number] = title + body
        room -= len(shown[number].encode()) + len("\n\n")
    return "\n\n".join(shown[number] for number in sorted(shown))


def truncate_text(text: str, size: int) -> str:
    """Return the beginning of a text in so many bytes, cut between words if possible."""
    data = text.encode()
    if len(data) <= size:
        return text
    head = data[: size - len(CUT.encode())].decode(errors="ignore")
    words = head.rpartition(" ")[0]
    return (words if len(words) > ceil(0.9 * len(head)) else head) + CUT


def split_passages(text: str, size: int) -> list[str]:
    """Split a text into passages of so many bytes: at paragraphs, lines, sentences or words.

    Nothing is lost: joined they are the text.
    """
    data, start, passages = text.encode(), 0, list[str]()
    while len(data) - start > size:
        window = data[start : start + size].decode(errors="ignore")
        passages.append(window[: _end(window)])
        start += len(passages[-1].encode())
    return [*passages, data[start:].decode()]


def _end(window: str) -> int:
    """Return where the passage ends that begins the window."""
    for pattern, full in _ENDS:
        ends = [match.end() for match in pattern.finditer(window, int(full * len(window)))]
        if ends:
            return ends[-1]
    return len(window)


def score_passages(query: str, passages: Sequence[str]) -> list[float]:
    """Score each passage by BM25 over the passages (Robertson & Zaragoza 2009, 3.15)."""
    counts = [Counter(index_terms(passage)) for passage in passages]
    mean = max(1.0, sum(count.total() for count in counts) / max(1, len(counts)))
    wanted = {term: sum(term in count for count in counts) for term in index_terms(query)}
    weights = {t: log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for t, n in wanted.items() if n}
    return [
        sum(
            weight
            * count[term]
            * (_K1 + 1)
            / (count[term] + _K1 * (1 - _B + _B * count.total() / mean))
            for term, weight in weights.items()
        )
        for count in counts
    ]


def index_terms(text: str) -> list[str]:
    """Return the terms that represent the words of a text."""
    terms = find_terms(normalize("NFKC", text).casefold().replace("_", " "))
    return [term if term.isdecimal() else term[:_LETTERS] for term in terms]


def find_terms(text: str) -> Iterator[str]:
    """Yield the words of a text; of scripts without blanks their characters, and pairs of these."""
    for word in _WORD.findall(text):
        if word.isascii() or word.isdecimal():
            yield word
            continue
        for run in _RUNS.finditer(word):
            if unspaced := run[1]:
                yield from unspaced
                yield from (unspaced[n : n + 2] for n in range(len(unspaced) - 1))
            else:
                yield run[0]
