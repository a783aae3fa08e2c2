"""Sum up what servers say with their answers: which model gave them, and the tokens of prompts."""

from dataclasses import dataclass, field

from zelo_ray.records import Reply, Usage

_FEWEST = 5  # prompts that tell anything
_CHARACTERS = 8  # of a token, at most: words of English have five, and repeated signs are left out
_LEAST = 10  # tokens of a prompt: fewer stand for a number that the server does not know
_APART = 1.1  # lengths of prompts that cannot have just the same number of tokens again and again
_SHARE = 0.05  # of all prompts: a few may have the same number by chance


@dataclass(slots=True)
class ServerFigures:
    """Figures of one judge's server.

    Prompts count whose length and number of tokens are known.
    """

    models: dict[str, int] = field(default_factory=dict)
    """answers by the model that gave them, as the server names it"""
    prompts: int = 0
    thin: int = 0
    """prompts with fewer tokens than so many characters can have"""
    most_tokens: int = 0
    """of a prompt"""
    at_most_tokens: int = 0
    """prompts with so many tokens"""
    shortest: int = 0
    longest: int = 0
    """characters of the shortest and the longest of these"""

    def take(self, model: str, usage: Usage | Reply, characters: int) -> None:
        """Take in an answer: its model, what it used, and the characters of its prompt; 0: unknown.

        A prompt of which more was cached than counted has a number that leaves the cached part out.
        """
        counts, tokens = {model: 1} if model else {}, usage.input_tokens
        if characters and tokens >= max(_LEAST, usage.cached_tokens):
            thin = int(_CHARACTERS * tokens < characters)
            self.add(ServerFigures(counts, 1, thin, tokens, 1, characters, characters))
        else:
            self.add(ServerFigures(counts))

    def add(self, other: "ServerFigures") -> None:
        """Add other figures of the same judge."""
        for model, count in other.models.items():
            self.models[model] = self.models.get(model, 0) + count
        self.prompts, self.thin = self.prompts + other.prompts, self.thin + other.thin
        if other.most_tokens > self.most_tokens:
            self.most_tokens, self.at_most_tokens = other.most_tokens, other.at_most_tokens
            self.shortest, self.longest = other.shortest, other.longest
        elif other.most_tokens == self.most_tokens and other.prompts:
            self.at_most_tokens += other.at_most_tokens
            self.shortest = min(self.shortest, other.shortest)
            self.longest = max(self.longest, other.longest)

    @property
    def is_in_doubt(self) -> bool:
        """Return whether most prompts so far have fewer tokens than they can have."""
        return 0 < self.prompts <= 2 * self.thin

    @property
    def cut_to(self) -> int:
        """Return the tokens to which prompts seem to be cut; 0 where nothing tells of it."""
        same = self.at_most_tokens >= max(_FEWEST, _SHARE * self.prompts)
        same = same and self.longest >= _APART * self.shortest
        thin = self.is_in_doubt and self.thin >= _FEWEST
        return self.most_tokens if same or thin else 0
