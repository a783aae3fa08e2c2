"""Classify how an answer ended from the words of servers, with one table for all of them."""

from typing import Literal

Ending = Literal["ok", "truncated", "filtered", "refused", "failed"]

_WORDS: dict[Ending, str] = {
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
_ENDINGS = {word: ending for ending, words in _WORDS.items() for word in words.split()}


def classify_ending(word: object) -> Ending | None:
    """Return how an answer ended; None if the word is unknown.

    Case, punctuation and the prefixes of Google's enumerations are ignored. Without a word, as with
    many servers, the answer is complete.
    """
    plain = "".join(filter(str.isalnum, str(word or "").rpartition(".")[2].lower()))
    plain = plain.removeprefix("finishreason")
    return _ENDINGS.get(plain) if plain else "ok"
