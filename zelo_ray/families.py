"""Find which model families a name belongs to.

Models of one family share their training, and so their errors: a judge favours rankers of its own
family (self-preference). A name may belong to several families, such as a model of one vendor that
was distilled from another's. A name that matches no line of the table is a family of its own.
"""

import re

_LINES = {
    "gpt": r"gpt|chatgpt|codex|davinci",
    "claude": r"claude",
    "gemini": r"gemini|gemma|palm",
    "llama": r"(?:code)?llama|vicuna|tulu",
    "qwen": r"qwen|qwq|zerank-[12]|jina-reranker-(?:v3|m0)|mxbai-rerank-\w+-v2",
    "mistral": r"(?:mis|mix|minis|magis|codes)tral|zephyr",
    "deepseek": r"deepseek",
    "t5": r"t5|flan(?:-?t5)?",
    "cohere": r"command|aya|rerank-(?:v\d|english|multilingual)",
    "phi": r"phi",
    "grok": r"grok",
    "glm": r"glm|chatglm",
    "kimi": r"kimi|moonshot",
    "minimax": r"minimax",
    "nova": r"nova",
    "granite": r"granite",
    "nemotron": r"nemotron",
    "zerank": r"zerank",
    "voyage": r"voyage",
    "jina": r"jina",
    "bge": r"bge",
    "mxbai": r"mxbai",
    "lexical": r"bm25\w*|likelihood|chargram",
}
"""By family, a pattern of its models' names: a vendor's language models, or rerankers.

Lexical judges see the same words, and favour each other: with them as truth 113 of 224 significant
differences on TREC DL 2019 were wrong, and none of the 88 between other rankers
(`benchmarks/kin.py`).
"""
FAMILIES = frozenset(_LINES)
"""The families that are known; any other name is a family of its own."""
_VENDORS = {
    "openai": "gpt",
    "anthropic": "claude",
    "gemini": "gemini",
    "vertex": "gemini",
    "cohere": "cohere",
    "voyage": "voyage",
    "jina": "jina",
    "zeroentropy": "zerank",
}
"""By provider, the family of its own models; a server at a URL may serve any others."""
_PATTERNS = {
    family: re.compile(rf"(?<![a-z])(?:rank|mono|duo)?(?:{names})(?![a-z])")
    for family, names in _LINES.items()
}


def families_of(name: str) -> frozenset[str]:
    """Return the families of a judge or ranker, by its name; at least one.

    Such as ``openai:gpt-6-luna``, ``openai:qwen3@http://host:8000/v1``, ``bm25``, or a run's tag.

    Example:
        >>> sorted(families_of("openai:deepseek-r1-distill-llama-70b@http://host/v1"))
        ['deepseek', 'llama']
        >>> families_of("listwise:anthropic:claude-haiku-5-5") == families_of("anthropic:claude-4")
        True
    """
    who, at, _ = name.lower().partition("@")
    *heads, model = who.split(":")
    names = [*(head for head in heads if head not in _VENDORS), model]
    last = ":".join(names).rstrip("/").rpartition("/")[2]  # of a path, or of an owner and a model
    if families := {family for family, pattern in _PATTERNS.items() if pattern.search(last)}:
        return frozenset(families)
    vendors = [] if at else [_VENDORS[head] for head in heads if head in _VENDORS]
    return frozenset(vendors[:1] or [model.rstrip("/").rpartition("/")[2]])
