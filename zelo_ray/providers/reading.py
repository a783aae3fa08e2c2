"""Read what all servers have in common: ends of answers, letters' chances, waits and limits."""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Literal

# --- how an answer ended --------------------------------------------------------------------------

Ending = Literal["ok", "truncated", "filtered", "refused", "failed"]

_ENDING_WORDS: dict[Ending, str] = {
    "ok": "stop stopped eos eostoken endturn endoftext endofturn stopsequence stopword toolcalls "
    "toolcall tooluse functioncall complete completed end done finish finished success",
    "truncated": "length maxtokens maxoutputtokens maxnewtokens maxcompletiontokens maxlength "
    "modellength contextlength contextlengthexceeded modelcontextwindowexceeded tokenlimit "
    "truncated incomplete pauseturn continuation repetition",
    "filtered": "contentfilter contentfiltered contentpolicy contentblocked safety recitation "
    "sensitive blocklist blocked prohibitedcontent spii imagesafety language modelarmor "
    "guardrailintervened guardrails moderation flagged violation errortoxic",
    "refused": "refusal refused",
    "failed": "error failed failure networkerror abort aborted cancel cancelled canceled "
    "insufficientsystemresource timeout servererror internalerror upstreamerror overloaded "
    "interrupted disconnect disconnected ratelimit other malformedfunctioncall malformedresponse "
    "unexpectedtoolcall toomanytoolcalls missingthoughtsignature",
}
_ENDINGS = {word: ending for ending, words in _ENDING_WORDS.items() for word in words.split()}


NO_TEXT = (
    "a tool call or thoughts, and no text: leave tools out of extra_body, turn the server's tool "
    "choice or the model's thinking off, or raise max_output_tokens"
)


def classify_ending(word: object) -> Ending | None:
    """Return how an answer ended; None if the word is unknown.

    Case, punctuation and the prefixes of Google's enumerations are ignored. Without a word, as with
    many servers, the answer is complete.
    """
    plain = "".join(filter(str.isalnum, str(word or "").rpartition(".")[2].lower()))
    plain = plain.removeprefix("finishreason")
    return _ENDINGS.get(plain) if plain else "ok"


# --- the probabilities of letters -----------------------------------------------------------------

TOP_TOKENS = 20
"""The most likely tokens whose log-probabilities are asked for: the most that OpenAI gives."""
NO_PROBABILITIES = "the server returns no log-probabilities; ask this judge with --answer reasoned"
_SPACES = " \t\r\n\u2581\u0120"
"""White space, and what stands for a space in the tokens of SentencePiece and of GPT-2."""
_DIGITS = 6


def letter_probabilities(tokens: Iterable[tuple[str, float]], choices: Sequence[str]) -> str:
    """Return the probability of each letter as a JSON object, in the order of the choices.

    Tokens that are the same letter, with or without a space before it, large or small, count
    together. A letter that is not among the tokens has none. Tokens are the most likely first ones
    of the answer, with the natural logarithms of their probabilities.
    """
    sums = dict.fromkeys(choices, 0.0)
    letters = {letter.casefold(): letter for letter in choices}
    for token, logarithm in tokens:
        if math.isnan(logarithm) or logarithm > 0.01:  # rounding may exceed 0
            raise ValueError("a log-probability is none")
        if letter := letters.get(token.strip(_SPACES).casefold()):
            sums[letter] += math.exp(min(0.0, logarithm))
    return json.dumps({letter: round(min(1.0, sum_), _DIGITS) for letter, sum_ in sums.items()})


# --- headers --------------------------------------------------------------------------------------

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def server_delay(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a response asks to wait; None without a readable header.

    It is ``retry-after-ms``, else ``retry-after`` as a number or an HTTP date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            delay = float(value) / unit
        except ValueError:
            try:
                delay = parsedate_to_datetime(value).timestamp() - now()
            except ValueError:
                continue
        if math.isfinite(delay):
            return max(0.0, delay)
    return None


def limit_in(headers: Mapping[str, str], name: str) -> float | None:
    """Return the limit in a header; None unless it is above 0."""
    try:
        limit = float(headers.get(name) or 0)
    except ValueError:
        return None
    return limit if 0 < limit < math.inf else None


def duration(text: str) -> float | None:
    """Return the seconds of a duration as Go writes it: ``8m38.4s``, ``120ms``; else None."""
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
