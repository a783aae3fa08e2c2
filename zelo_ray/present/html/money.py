"""Amounts of money as a page shows them."""

from zelo_ray.engine.bookkeeping import money


def paid(dollars: float, unpriced: int = 0) -> str:
    """Format an amount; ``free`` where nothing was charged, ``?`` where no price is known.

    Args:
        dollars: US dollars that are known.
        unpriced: how many answers had no known price.
    """
    if not dollars:
        return "?" if unpriced else "free"
    return money(dollars) + (" + ?" if unpriced else "")
