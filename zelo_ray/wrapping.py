"""Remove what some models put around an answer: a thought, a code fence, talk, special tokens.

Only one form is accepted, so that nothing is guessed: optionally a thought, or else a short line of
talk; then one answer, fenced or not; then, if there was no thought, optionally another line of
talk. Anything else is not an answer. A document cannot forge a thought:
`break_special_tokens` breaks up the markers of thoughts and the special tokens of models in all
texts that prompts show.
"""

import re
from dataclasses import dataclass
from typing import Literal

Wrap = Literal["think", "fence", "talk", "token", "quotes"]

_THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""How a thought begins and ends; often the prompt ends with the first, the answer lacks it."""
_FRAMES = (
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|begin_of_box|>", "<|end_of_box|>"),
)
_ANALYSIS = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>")
_FINAL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>final(?: ?<\|constrain\|>(?:json|JSON))?<\|message\|>"
)
"""The format of gpt-oss, called Harmony, names its channels."""
_ENDS = ("<|return|>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|EOT|>", "[EOS]", "</s>")
_MOST_ENDS = 3
_TOKENS = tuple(
    (re.compile(f"{re.escape(begin)}(?={pattern})"), f"{begin} ")
    for begin, pattern in (
        ("<", r"[|\uff5c]|/?(?:thinking|think|thought|reasoning|seed:think|mm:think)>"),
        ("<", r"/?s>|/?(?:bos|eos|sop|eop|pad|unk)>|<SYS>>|</SYS>>|seed:\w+>|\w{1,40}\|>"),
        ("<", r"(?:start|end)_of_\w+>|[A-Z_]{1,40}_TOKEN>|/?tool_(?:call|response)s?>"),
        ("<", r"fim_\w+>|(?:unused|reserved_|SPECIAL_|extra_id_)\d+>"),
        ("[", r"/?(?:THINK|INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS|MODEL_SETTINGS)\]"),
        ("[", r"(?:ARGS|CALL_ID|BOS|EOS|gMASK|sMASK)\]"),
        ("[", r"\|(?:system|user|assistant|tool|endofturn)\|\]"),
        ("]", r"~!?b[\[\]]"),
        ("◁", r"/?think▷"),
    )
)
_LANGUAGES = ("json", "JSON", "xml", "")
_LINE = r"[^\n{}\[\]<>`~]{1,120}+"
_BEFORE, _AFTER = re.compile(rf"{_LINE}\n\s*(?=[{{`~])"), re.compile(rf"\s*\n{_LINE}")


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The text inside the wrapping, and the kinds of wrapping that were around it."""

    text: str
    wraps: tuple[Wrap, ...]


def break_special_tokens(text: str) -> str:
    """Put a space into every text that is a special token to some model."""
    for token, broken in _TOKENS:
        text = token.sub(broken, text)
    return text


def unwrap_answer(text: str, *, prose: bool = False) -> Unwrapped | None:
    """Return the text inside its wrapping; None if the answer does not have the accepted form.

    Args:
        text: an answer that cannot be read as it is.
        prose: whether it is prose rather than a JSON object; then no talk is removed.
    """
    wraps = list[Wrap]()
    body = _strip_tokens(text)
    if (thought := _after_thought(body)) is not None:
        body = _strip_tokens(thought)
        wraps.append("think")
    for opening, closing in _FRAMES:
        if body.startswith(opening) and body.endswith(closing):
            body = _strip_tokens(body[len(opening) : -len(closing)])
    if not wraps and body != text.strip():
        wraps.append("token")
    talks = not (prose or thought is not None)
    if talks and (talk := _BEFORE.match(body)):
        body = body[talk.end() :]
        wraps.append("talk")
    if fenced := _split_fence(body):
        body, after = fenced
        wraps.append("fence")
    else:
        end = len(body) if prose else body.rfind("}") + 1
        body, after = body[:end], body[end:]
    if after.strip():
        if not talks or not _AFTER.fullmatch(after.rstrip()):
            return None
        wraps.append("talk")
    return Unwrapped(body, tuple(dict.fromkeys(wraps))) if wraps else None


def _strip_tokens(text: str) -> str:
    """Remove a byte order mark, and special tokens at the end."""
    body = text.strip().removeprefix("\ufeff").strip()
    for _ in range(_MOST_ENDS):
        token = next((ending for ending in _ENDS if body.endswith(ending)), "")
        body = body.removesuffix(token).rstrip()
    return body


def _after_thought(text: str) -> str | None:
    """Return what follows a leading thought; None if there is no thought, or it does not end."""
    if _ANALYSIS.match(text) or _FINAL.match(text):
        final = _FINAL.search(text)
        answer = text[final.end() :] if final else "<|"
        return None if "<|" in answer else answer
    for opening, closing in _THOUGHTS:
        if text.startswith(opening):
            _, ended, answer = text.partition(closing)
            return answer if ended else None
    if text.startswith(("{", "`", "~")):
        return None
    for opening, closing in _THOUGHTS:
        head, ended, answer = text.partition(closing)
        if ended:  # the thought began in the prompt
            return None if opening in head or closing in answer else answer
    return None


def _split_fence(text: str) -> tuple[str, str] | None:
    """Return the contents of a code fence at the beginning of a text, and what follows it."""
    inner = text.lstrip(text[:1]) if text.startswith(("```", "~~~")) else ""
    ticks = text[: len(text) - len(inner)]
    body, ended, after = inner.rpartition(ticks) if inner else ("", "", "")
    if not ended:
        return None
    language = next(prefix for prefix in _LANGUAGES if body.startswith(prefix))
    body = body.removeprefix(language)
    return (body.strip(), after) if body[:1].isspace() or body[:1] == "{" else None
