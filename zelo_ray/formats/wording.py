"""What a person reads on a terminal: numbers of things, and names that others chose."""


def counted(number: int, one: str, many: str = "") -> str:
    """``1 query``, ``1,200 documents``; ``many`` where the plural is not a mere s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def printable(text: str) -> str:
    """A line without what could steer a terminal, or turn the direction of writing."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
