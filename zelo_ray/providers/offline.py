"""Judges that run here, free and deterministic: classic lexical scorers, no language models.

Each scores documents against the query by the words or letters that they share; none understands a
paraphrase, or can argue. Word frequencies come from the `wordfreq` package. A single document is
graded by how much of the query it covers. Where a script has no blanks between words, its
characters and their pairs stand for these.
"""

import math
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple
from unicodedata import normalize

from zelo_ray.protocols.passages import find_terms
from zelo_ray.providers import Provider, Refused
from zelo_ray.records import (
    Answer,
    CallTiming,
    Request,
    SyntheticFeatures,
    Usage,
    synthesize_answer,
)

_LANGUAGES = ("en", "de", "fr", "es", "it", "pt")
_RAREST = 1e-7
_TYPICAL_LENGTH = 100
"""Words of a typical document, for the rarity of a word."""


class Offline:
    """A connection to the scorers of this process, which answer from the request's own material."""

    def __init__(self) -> None:
        self._ready = set[str]()

    async def send(self, request: Request) -> Answer:
        """Compare two documents, grade one, or score some."""
        judge, texts = request.judge.model, [document.content for document in request.documents]
        begun = loaded = time.perf_counter()
        if judge not in self._ready:  # imports what a scorer needs, and reads its tables
            _JUDGES[judge].score("some words", ["a document of some words", "another document"])
            self._ready.add(judge)
            loaded = time.perf_counter()
        try:  # not in a thread: the stemmer is not thread-safe
            features = _features(judge, request.query, texts)
            seconds = time.perf_counter() - loaded
            text = synthesize_answer(request, features)
        except ValueError:
            raise Refused(
                "offline judges compare, grade or score documents, and cannot argue"
            ) from None
        timing = CallTiming(seconds, loaded - begun, in_flight=1)
        return Answer("ok", text, Usage(), model=judge, timing=timing)

    async def aclose(self) -> None:
        """Do nothing, as no resource is held."""


def _features(judge: str, query: str, texts: Sequence[str]) -> SyntheticFeatures:
    """Return the features of documents: of one its grade, of two the preference, and scores."""
    scorer = _JUDGES[judge]
    scores = tuple(scorer.score(query, texts)) if texts else ()
    if len(texts) == 2:
        a, b = scores
        preference = round(math.tanh((b - a) * scorer.slope), 4)
        words = f"{judge} scores A {a:.3f} and B {b:.3f}"
        return SyntheticFeatures(pair_preference=preference, scores=scores, words=words)
    if len(texts) != 1:
        return SyntheticFeatures(scores=scores)
    share, stems = scorer.share(query, texts[0]), set(_stems(texts[0]))
    telling = set(_telling(query))
    facets = [(word, stem in stems) for stem, word in _query_words(query) if word in telling]
    return SyntheticFeatures(
        document_grade=bisect_right(_STEPS, share),
        scores=scores,
        words=f"{judge} finds {share:.0%} of the query covered",
        covered=tuple(word for word, covered in facets if covered),
        missing=tuple(word for word, covered in facets if not covered),
    )


def bm25(query: str, documents: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Score these documents by Okapi BM25 (Robertson & Zaragoza 2009, eq. 3.15).

    A word's inverse document frequency is its `rarity`, as two documents cannot estimate it.
    """
    counts = [Counter(_stems(document)) for document in documents]
    mean = sum(count.total() for count in counts) / len(counts)
    scores = []
    for count in counts:
        norm = k1 * (1 - b + b * count.total() / max(mean, 1))
        scores.append(
            sum(
                rarity(word) * count[stem] * (k1 + 1) / (count[stem] + norm)
                for stem, word in _query_words(query)
            )
        )
    return scores


def likelihood(query: str, documents: Sequence[str], mu: float = 300) -> list[float]:
    """Return query likelihoods with Dirichlet smoothing (Zhai & Lafferty 2004), in nats a word."""
    words = _query_words(query)
    scores = []
    for document in documents:
        count = Counter(_stems(document))
        total = sum(
            math.log((count[stem] + mu * frequency(word)) / (count.total() + mu))
            for stem, word in words
        )
        scores.append(total / max(len(words), 1))
    return scores


def chargram(query: str, documents: Sequence[str]) -> list[float]:
    """Return the cosines of character 3- to 5-grams within words, very common words left out."""
    return [_chargram_cosine(query, document) for document in documents]


@lru_cache(2**14)
def _chargram_cosine(query: str, document: str) -> float:
    grams, others = _gram_counts(query), _gram_counts(document)
    products = sum(count * others[gram] for gram, count in grams.items())
    lengths = math.hypot(*grams.values()) * math.hypot(*others.values())
    return products / lengths if lengths else 0.0


def bm25_share(query: str, document: str) -> float:
    """Return the share of the query's words, weighted by rarity, that the document has."""
    stems, words = set(_stems(document)), _query_words(query)
    weight = sum(rarity(word) for stem, word in words if stem in stems)
    return weight / max(sum(rarity(word) for _, word in words), 1e-9)


def chargram_share(query: str, document: str) -> float:
    """Return the share of the query's character 3- to 5-grams within words in the document."""
    grams, text = _gram_counts(query), f" {' '.join(_words(document))} "
    return sum(gram in text for gram in grams) / max(1, len(grams))


def likelihood_share(query: str, document: str) -> float:
    """Return the document's gain in query likelihood, as a share of the query's own gain."""
    score, floor, ceiling = likelihood(query, [document, "", query])
    return min(1.0, max(0.0, (score - floor) / (ceiling - floor))) if ceiling > floor else 0.0


class _Scorer(NamedTuple):
    """A scorer of documents."""

    score: Callable[[str, Sequence[str]], list[float]]
    slope: float
    """turns a difference of scores into a preference"""
    share: Callable[[str, str], float]
    """how much of a query a document covers"""


_JUDGES = {
    "bm25": _Scorer(bm25, 0.1, bm25_share),
    "chargram": _Scorer(chargram, 5.0, chargram_share),
    "likelihood": _Scorer(likelihood, 0.5, likelihood_share),
}
_STEPS = (0.4, 0.6, 0.8)
"""Shares of the query from which a document is marginal, relevant, highly relevant."""


@lru_cache(2**16)
def frequency(word: str) -> float:
    """Return a word's share of running text, in the language that uses it most.

    Taking a word apart takes `wordfreq` .1 ms a language. A plain one is looked up as it stands.
    """
    import wordfreq  # noqa: PLC0415 - paid where it is used

    languages: Sequence[str] = _LANGUAGES
    if word.isascii() and word.isalpha():
        shares = {lang: _word_list(lang).get(word, 0.0) for lang in _LANGUAGES}
        most = max(_LANGUAGES, key=shares.__getitem__)
        languages = [most] if shares[most] else []
    frequencies = (wordfreq.word_frequency(word, lang, wordlist="small") for lang in languages)
    return max((_RAREST, *frequencies))


@cache
def _word_list(lang: str) -> Mapping[str, float]:
    import wordfreq  # noqa: PLC0415 - paid where it is used

    words: Mapping[str, float] = wordfreq.get_frequency_dict(lang, wordlist="small")
    return words


@lru_cache(2**16)
def rarity(word: str) -> float:
    """Return minus the logarithm of the chance that a typical document holds the word."""
    return -math.log(-math.expm1(_TYPICAL_LENGTH * math.log1p(-frequency(word))))


_THREAD = threading.local()


@lru_cache(2**16)
def _stem(word: str) -> str:
    stemmer = getattr(_THREAD, "stemmer", None)
    if stemmer is None:  # one for each thread, as it holds the word that it is at
        import snowballstemmer  # noqa: PLC0415 - paid where it is used

        stemmer = _THREAD.stemmer = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


def _words(text: str) -> list[str]:
    return [*find_terms(normalize("NFC", text.casefold()))]


@lru_cache(4096)
def _stems(text: str) -> tuple[str, ...]:
    return tuple(_stem(word) for word in _words(text))


@lru_cache(1024)
def _query_words(query: str) -> tuple[tuple[str, str], ...]:
    """Return each distinct stem of a query with a word that it stands for, in order."""
    return tuple({_stem(word): word for word in reversed(_words(query))}.items())[::-1]


def _telling(text: str) -> list[str]:
    """Return the words that are not very common, or all if every word is."""
    words = _words(text)
    return [word for word in words if rarity(word) > 1] or words


@lru_cache(512)  # a long text has half a megabyte of them
def _gram_counts(text: str) -> Counter[str]:
    padded = [f" {word} " for word in _telling(text)]
    return Counter(
        word[i : i + n] for word in padded for n in (3, 4, 5) for i in range(len(word) - n + 1)
    )


PROVIDER = Provider(
    connect=lambda _: Offline(),
    models=tuple(_JUDGES),
    closed=True,
    concurrency=64,
    free=True,
    gives_probabilities=True,
)
