"""What something cost, as a page says it."""

from zelo_ray.engine.bookkeeping import money


def paid(dollars: float, unpriced: int = 0) -> str:
    """An amount; ``free`` where nothing was charged, ``?`` where no price is known.

    Args:
        dollars: US dollars that are known.
        unpriced: how many answers had no known price.
    """
    if not dollars:
        return "?" if unpriced else "free"
    return money(dollars) + (" + ?" if unpriced else "")
