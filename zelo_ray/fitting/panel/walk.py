"""Search of a short grid for the value under which a model predicts best."""

from collections.abc import Callable, Sequence

from zelo_ray.fitting.panel.model import PanelModel

Trial = Callable[[float, PanelModel], tuple[PanelModel, float]]
"""Fits the model with some value, from what it was, and tells how well it predicts."""


def walk(at: Trial, grid: Sequence[float], model: PanelModel, start: float) -> PanelModel:
    """Walk along the grid while predictions get better; each fit starts from its neighbour's.

    Args:
        at: fits and scores a model.
        grid: of values, ascending.
        model: where the first fit starts.
        start: value to begin with: the nearest of the grid.
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
