"""Prompts in tokens, as a model's own chat template writes them."""

import inspect
from typing import Any

from zelo_ray.providers import Fatal, Refused
from zelo_ray.records import Judge, Request

_PROBE = ("compare\ntwo documents", "which one\nanswers the question")
"""With line breaks, which what prints a list of parts as it stands does not keep."""


async def tokenizer_of(engine: Any) -> Any:
    """Return the tokenizer; some older versions must be awaited."""
    tokenizer = engine.get_tokenizer()
    return await tokenizer if inspect.isawaitable(tokenizer) else tokenizer


def in_tokens(engine: Any, tokenizer: Any, request: Request, *, in_parts: bool) -> list[int]:
    """Return the request's prompts in tokens.

    Raises:
        Refused: they are longer than the model can read, or its template does not take them.
    """
    try:
        texts = (request.system, request.user)
        tokens = _written(tokenizer, request.judge, texts, in_parts=in_parts)
    except Exception as error:  # noqa: BLE001 - whatever a template raises; it may hold the prompt
        what = f"its chat template does not take the prompt: {type(error).__name__}"
        raise Refused(what) from None
    limit = engine.model_config.max_model_len
    if len(tokens) >= limit:
        raise Refused(f"a prompt of {len(tokens):,} tokens; max_model_len is {limit:,}")
    return tokens


def takes_parts(tokenizer: Any, judge: Judge) -> bool:
    """Return whether the model's template takes texts as lists of parts, as vision models do.

    Such templates print nothing of a plain text, and others leave the system's out. The schema
    would make a verdict of what is left, so it is tried with two texts that must come out.

    Raises:
        Fatal: it prints the two in neither form.
    """
    why = "leaves out the system's or the user's text"
    for in_parts in (False, True):
        try:
            prompt = tokenizer.decode(_written(tokenizer, judge, _PROBE, in_parts=in_parts))
        except Exception as error:  # noqa: BLE001 - whatever a template raises
            why = f"does not take them: {type(error).__name__}"
        else:
            if all("".join(text.split()) in "".join(prompt.split()) for text in _PROBE):
                return in_parts
    what = f"its chat template, given a system's and a user's text, {why}"
    raise Fatal(f"{what}; use an instruction-tuned model that takes both", name=judge.name)


def _written(tokenizer: Any, judge: Judge, texts: tuple[str, str], *, in_parts: bool) -> list[int]:
    """Return a system and a user text in tokens, as the model's template writes them."""
    contents = [[{"type": "text", "text": text}] if in_parts else text for text in texts]
    tokens = tokenizer.apply_chat_template(
        [
            {"role": role, "content": content}
            for role, content in zip(("system", "user"), contents, strict=True)
        ],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        **judge.options["chat_template_kwargs"],
    )
    return list(tokens)
