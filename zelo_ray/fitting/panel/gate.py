"""Test by hidden votes whether the sizes of preferences help to predict."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zelo_ray.fitting.battles import Bools, Floats
from zelo_ray.fitting.panel.arrays import sums
from zelo_ray.fitting.panel.cavity import (
    NEAR,
    NODES,
    SHARES,
    cavities,
    level_chances,
)
from zelo_ray.fitting.panel.columns import Columns, stacks
from zelo_ray.fitting.panel.curves import curves_of
from zelo_ray.fitting.panel.mix import mixed
from zelo_ray.fitting.panel.mode import maximise
from zelo_ray.fitting.panel.model import PanelModel

HIDDEN = 6
"""One pair of so many is hidden, with all its votes."""
ENOUGH = 100
"""Queries with hidden votes that it takes to tell."""


def hidden(votes: Columns, seed: int) -> Bools:
    """Choose the votes to hide, by a hash of the query and the pair."""
    pair = mixed(seed, votes.queries[votes.query], votes.i, votes.j)
    out: Bools = pair % np.uint64(HIDDEN) == 0
    return out


def without(votes: Columns, dropped: Bools) -> Columns:
    """Return the votes without the dropped ones."""
    mask = ~dropped
    return replace(
        votes,
        query=votes.query[mask],
        i=votes.i[mask],
        j=votes.j[mask],
        judge=votes.judge[mask],
        order=votes.order[mask],
        favour=votes.favour[mask],
        together=votes.together[mask],
    )


def foretold(votes: Columns, unseen: Bools, model: PanelModel) -> Floats:
    """Compute the log likelihood of each query's hidden signs given its other votes: [queries].

    The queries are those of ``votes``, in their order; without hidden votes it is 0.
    """
    return np.concatenate(list(_foretold(votes, unseen, model)))


def _foretold(votes: Columns, unseen: Bools, model: PanelModel) -> Iterator[Floats]:
    curves, start = curves_of(model), 0
    for stack in stacks(votes, None, model):
        out = unseen[start : start + len(stack.query)]
        start += len(stack.query)
        blind = replace(stack, weight=np.where(out, 0.0, stack.weight))
        mode = maximise(blind, curves, model.own_sd, NEAR)
        middle, spread = cavities(blind, mode, curves, model.own_sd)
        gaps = middle[:, np.newaxis] + spread[:, np.newaxis] * NODES
        chances = level_chances(blind, curves, gaps)
        top = curves.top
        signs = (chances[:, :, :top].sum(2), chances[:, :, top], chances[:, :, top + 1 :].sum(2))
        likelihood = np.choose(np.sign(stack.level)[:, np.newaxis] + 1, signs) @ SHARES
        logs: Floats = np.where(out, np.log(likelihood), 0.0)
        yield sums(stack.query, logs, len(stack.places))
