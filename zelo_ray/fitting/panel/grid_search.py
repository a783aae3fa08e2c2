"""Search a short grid for the value with which a model predicts best."""

from collections.abc import Callable, Sequence

from zelo_ray.fitting.panel.model import PanelModel

Trial = Callable[[float, PanelModel], tuple[PanelModel, float]]
"""Fit a model with a value, starting from another model; return it, and how well it predicts."""


def search_grid(at: Trial, grid: Sequence[float], model: PanelModel, start: float) -> PanelModel:
    """Return the best model along the grid; each fit starts from its neighbour's.

    Args:
        at: fits and scores a model.
        grid: of values, ascending.
        model: where the first fit starts.
        start: the value near which to begin.
    """
    place = min(range(len(grid)), key=lambda at: abs(grid[at] - start))
    best, score = at(grid[place], model)
    for turn in (-1, 1):
        moved = False
        while 0 <= place + turn < len(grid):
            tried, trial_score = at(grid[place + turn], best)
            if trial_score <= score:
                break
            best, score, place, moved = tried, trial_score, place + turn, True
        if moved:
            break
    return best
