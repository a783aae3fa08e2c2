"""Let each candidate judge the halves of the labelled queries, one after another."""

import os
from collections.abc import Mapping

from zelo_ray.command_options import TuneOptions
from zelo_ray.commands.annotate.run import judge_pools
from zelo_ray.commands.compare_protocols.labelled_items import LabelledItems
from zelo_ray.commands.compare_protocols.measured import read_verdicts
from zelo_ray.commands.tune.candidates import Candidate, plan_candidate
from zelo_ray.commands.tune.halves import Half
from zelo_ray.engine.job import Watch
from zelo_ray.engine.replacement import refuse_other_options
from zelo_ray.engine.write_results import Summary
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import panel_of
from zelo_ray.reports.progress.recorder import fresh_display


class CandidateRuns:
    """The runs of candidates on the halves of the labelled queries."""

    def __init__(
        self, options: TuneOptions, field: LabelledItems, halves: Mapping[str, Half], watch: Watch
    ) -> None:
        self.options, self.field, self.halves, self._watch = options, field, halves, watch
        self.candidates = dict[str, Candidate]()
        self.plans = dict[tuple[str, str], AnnotateOptions]()
        """by candidate and half"""
        self.summaries = dict[tuple[str, str], Summary]()
        self._verdicts = dict[tuple[str, str], list[int]]()

    def add(self, candidate: Candidate) -> None:
        """Plan a candidate's runs.

        Raises:
            OptionError, PanelError: they are not possible, or other results lie there.
        """
        self.candidates[candidate.name] = candidate
        folder = f"{self.options.out.rstrip('/')}/candidates/{candidate.folder}"
        for half in self.halves.values():
            plan = plan_candidate(self.options, candidate, (half.pools,), f"{folder}/{half.name}")
            refuse_other_options(plan, panel_of(plan, os.environ))
            self.plans[candidate.name, half.name] = plan

    def judge(self, name: str, half: str) -> None:
        """Let a candidate judge a half, if it has not; the cap holds for the whole ledger."""
        if (name, half) in self.summaries:
            return
        with fresh_display(self._watch):
            self._watch.say("")
            self._watch.say(f"{name}, {half} half")
            self.summaries[name, half] = judge_pools(self.plans[name, half], self._watch)

    def verdicts(self, half: str) -> dict[str, list[int]]:
        """Return the verdicts of all candidates that judged a half, on its items."""
        for name in self.candidates:
            place = (name, half)
            if place in self.summaries and place not in self._verdicts:
                items = self.halves[half].items
                self._verdicts[place] = read_verdicts(self.plans[place].out, items)
        return {
            name: self._verdicts[name, half]
            for name in self.candidates
            if (name, half) in self._verdicts
        }
