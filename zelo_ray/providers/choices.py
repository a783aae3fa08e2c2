"""Turn the log-probabilities of an answer's one token into the probabilities of letters."""

import json
import math
from collections.abc import Iterable, Sequence

TOP_TOKENS = 20
"""The most likely tokens whose log-probabilities are asked for: the most that OpenAI gives."""
REASONED = "ask this judge with --answer reasoned"
NO_PROBABILITIES = f"the server returns no log-probabilities; {REASONED}"
NONE_HERE = "the answer has no log-probabilities"
_SPACES = " \t\r\n\u2581\u0120"
"""White space, and what stands for a space in the tokens of SentencePiece and of GPT-2."""
_DIGITS = 6


def letter_probabilities(tokens: Iterable[tuple[str, float]], choices: Sequence[str]) -> str:
    """Return the probability of each letter as a JSON object, in the order of the choices.

    Tokens that are the same letter, with or without a space before it, large or small, count
    together. A letter that is not among the tokens has none.

    Args:
        tokens: the most likely first tokens of the answer, with their natural logarithms of
            probabilities.
        choices: the letters.

    Raises:
        ValueError: a logarithm is not a number, or is larger than that of 1.
    """
    sums = dict.fromkeys(choices, 0.0)
    letters = {letter.casefold(): letter for letter in choices}
    for token, logarithm in tokens:
        if math.isnan(logarithm) or logarithm > 0.01:  # rounding may exceed 0
            raise ValueError("a log-probability is none")
        if letter := letters.get(token.strip(_SPACES).casefold()):
            sums[letter] += math.exp(min(0.0, logarithm))
    return json.dumps({letter: round(min(1.0, sum_), _DIGITS) for letter, sum_ in sums.items()})
