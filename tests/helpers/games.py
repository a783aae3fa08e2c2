"""Published comparisons, and what writes and fits them as a person would."""

from itertools import permutations

import numpy as np
import pandas as pd

from tests.files.reading import write_file
from zelo_ray import cli, fit
from zelo_ray.fitting.battles import Games
from zelo_ray.fitting.bradley_terry import fit_games

write = write_file
JOURNALS = ("Biometrika", "Comm Statist", "JASA", "JRSS-B")
CITED = [[714, 730, 498, 221], [33, 425, 68, 17], [320, 813, 1072, 142], [284, 276, 325, 188]]
"""How often papers of the journal of each column cite that of the row (Stigler 1994; Agresti 2002,
Categorical Data Analysis, p. 448; `citations` of BradleyTerry2)."""
TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
HOME = """
- 4-3 4-2 4-3 6-1 4-2 6-0
3-3 - 4-2 4-3 6-0 6-1 4-3
2-5 4-3 - 2-4 4-3 4-2 6-0
3-3 5-1 2-5 - 4-3 4-2 6-1
5-1 2-5 3-3 4-2 - 5-2 6-0
2-5 3-3 3-4 4-3 4-2 - 2-4
2-5 1-5 1-6 2-4 1-6 3-4 -
"""
"""Home wins and away wins of 1987, home teams by row (Agresti 2002, p. 438; `baseball` of
BradleyTerry2)."""


def citations():
    return [
        {"winner": JOURNALS[i], "loser": JOURNALS[j], "Freq": CITED[i][j]}
        for i, j in permutations(range(4), 2)
    ]


def baseball():
    cells = [line.split() for line in HOME.split("\n")[1:-1]]
    return pd.DataFrame(
        [
            (TEAMS[i], TEAMS[j], *map(int, cells[i][j].split("-")))
            for i, j in permutations(range(7), 2)
        ],
        columns=["home.team", "away.team", "home.wins", "away.wins"],
    )


def run(capsys, *words):
    """Exit status, standard output, standard error of the command."""
    status = cli.main(["fit", *map(str, words)])
    return (status, *capsys.readouterr())


def bradley_terry(wins, prior_sd=2.5):
    """Scores and errors by matrices of wins, of shape [queries, documents, documents]."""
    query, i, j = np.nonzero(np.triu(wins + wins.swapaxes(1, 2), 1))
    sizes = np.full(len(wins), wins.shape[1])
    games = Games(query, i, j, wins[query, i, j], wins[query, j, i], sizes)
    return [column.reshape(wins.shape[:2]) for column in fit_games(games, prior_sd)]


def scores_of(comparisons, **options):
    """The table of scores that `fit` makes of comparisons in memory or in a file."""
    return fit(comparisons, progress=None, **options).scores
