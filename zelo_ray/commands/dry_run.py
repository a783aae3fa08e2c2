"""Format estimates for ``--dry-run`` and pilots, in lines of 100 characters."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from zelo_ray.engine.batch.parts import Parts, sum_possibly_billed
from zelo_ray.engine.bookkeeping import describe_possibly_billed, format_dollars, statuses_to_retry
from zelo_ray.engine.estimate import CostEstimate, JudgeForecast, Spread, estimate
from zelo_ray.engine.exposure import sum_uncounted
from zelo_ray.engine.learning import read_human_grades
from zelo_ray.engine.ledger import describe_damage
from zelo_ray.engine.preview_input import preview_input
from zelo_ray.engine.replacement import warn_of_other_questions
from zelo_ray.engine.sample_input import InputSample
from zelo_ray.engine.waves import count_waves
from zelo_ray.errors import InputError
from zelo_ray.files.make_pools import Shown, ShownFields
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol


@dataclass(frozen=True, slots=True)
class JobPreview:
    """The estimate of a job, with remarks on its input."""

    estimate: CostEstimate
    notes: Sequence[str]

    @property
    def cap(self) -> float:
        """Return the budget in US dollars that suffices for all of it; 0 if a price is unknown."""
        high = self.estimate.dollars(self.estimate.mode).high
        can = high and not self.estimate.unpriced
        return self.estimate.spent + self.estimate.maybe + high if can else 0.0

    def to_lines(self, *, pilot: bool = True) -> list[str]:
        """Format it; ``pilot`` is whether to suggest one."""
        return [*format_estimate(self.estimate, pilot=pilot), *self.notes]


def format_previews(jobs: Mapping[str, JobPreview], what: str = "protocols") -> Iterator[str]:
    """Yield the previews of several protocols (or ``what`` they are), by name, and their sum."""
    for name, job in jobs.items():
        yield from (name, *job.to_lines(pilot=False), "")
    every = [job.estimate for job in jobs.values()]
    requests = sum(forecast.left for estimated in every for forecast in estimated.forecasts)
    low, expected, high = map(format_dollars, astuple(sum_dollars(every)))
    more = " + ?" if any(estimated.unpriced for estimated in every) else ""
    yield from _wrapped(
        f"All {len(every):,} {what} together: {requests:,} requests are left to ask, for "
        f"{expected}{more} ({low} to {high}). Requests of several {what} are paid once, but "
        "counted for each of them here."
    )


def sum_dollars(estimates: Iterable[CostEstimate]) -> Spread:
    """Return what several jobs cost together, each in its own mode."""
    sums = [estimated.dollars(estimated.mode) for estimated in estimates]
    names = ("low", "expected", "high")
    return Spread(*(sum(getattr(spread, name) for spread in sums) for name in names))


def preview_job(options: AnnotateOptions, environ: Mapping[str, str]) -> JobPreview:
    """Estimate the rest of a job, without any call, and without writing anything.

    Raises:
        InputError, OptionError, PanelError: as `annotate` would.
    """
    read_human_grades(options)
    query_ids, messages, first = set[str](), list[str](), ""
    shown = ShownFields(Shown(options.show_query, options.show_metadata))
    with preview_input(options, environ, messages.append) as source:
        options, ledger, bad = source.options, source.ledger, source.rejected
        survey = InputSample(source.panel, options, ledger)
        for line in source.lines():
            if line.pool is None or line.pool.query_id in query_ids:
                bad += 1
                first = first or f"{line.file}, line {line.number}: {line.reason}"
                continue
            query_ids.add(line.pool.query_id)
            shown.count(line.pool.about, line.pool.documents)
            survey.add(line.pool)
    if not survey.pools:
        raise InputError("; ".join(["the input holds no pool", *([first] if first else [])]))
    messages += shown.check("the input")
    notes = messages + [f"{line}." for line in warn_of_other_questions(options)]
    notes += [f"{counted(bad, 'invalid input line')} would be rejected."] if bad else []
    if ledger.damaged:
        notes += _wrapped(describe_damage(ledger.damaged))
    if load_protocol(options.protocol).max_rounds != 1:
        notes += _wrapped(
            f"What {options.protocol} asks later depends on its first replies. Without any, later "
            "questions are assumed to be as long as the first; it may also finish early."
        )
    if lying := sum(part.requests for part in Parts(options.ledger_dir) if part.is_open):
        notes.append(f"{lying:,} of the requests that are left are in open batches already.")
    figured = estimate(
        survey, retry=statuses_to_retry(options), maybe=sum_possibly_billed(options.ledger_dir)
    )
    uncounted = sum_uncounted(options.ledger_dir)
    return JobPreview(replace(figured, uncounted=uncounted), notes)


def format_estimate(estimate: CostEstimate, *, pilot: bool = True) -> list[str]:
    """Format the estimate as plain text: requests, tokens and hours, dollars, then notes.

    Args:
        estimate: of a job.
        pilot: whether to suggest a pilot.
    """
    forecasts, modes = estimate.forecasts, _modes(estimate)
    requests, planned = (
        sum(forecast.left for forecast in forecasts),
        sum(forecast.planned for forecast in forecasts),
    )
    heads = [head for mode in modes for head in (f"{mode}: low", "expected", "high")]
    sums = [_amounts(estimate.dollars(mode)) for mode in modes]
    more = "+?" if estimate.unpriced else ""
    about = "" if all(forecast.exact for forecast in forecasts) else "about "
    queries = counted(estimate.pools, "query", "queries")
    headline = f"{about}{requests:,} of {planned:,} requests about {queries} are left to ask"
    spent = f"{format_dollars(estimate.spent)}{' + ?' if estimate.unknown else ''}"
    return [
        f"{headline}; {spent} spent so far",
        "",
        _row("still to ask", "requests", "answered", "tokens in", "tokens out", "online"),
        *(_work_row(forecast.judge, [forecast]) for forecast in forecasts),
        _work_row("together", forecasts),
        "",
        _row("US dollars", *heads),
        *(
            _row(
                forecast.judge, *(cell for mode in modes for cell in _dollar_cells(forecast, mode))
            )
            for forecast in forecasts
        ),
        _row("together", *(cell + more for amounts in sums for cell in amounts)),
        "",
        *(line for note in _notes(estimate, pilot=pilot) for line in _wrapped(note)),
    ]


def _modes(estimate: CostEstimate) -> list[str]:
    return (
        ["online", "batch"]
        if any(forecast.has_batch for forecast in estimate.forecasts)
        else ["online"]
    )


def _row(name: str, *cells: str) -> str:
    clipped = name if len(name) <= 33 else f"{name[:32]}…"
    return f"{clipped:34}" + "".join(f"{cell:>11}" for cell in cells)


def _work_row(name: str, forecasts: Sequence[JudgeForecast]) -> str:
    """Format a row of the first table; judges are asked in parallel."""
    hours, guessed = max(
        ((forecast.hours or 0.0, forecast.guessed) for forecast in forecasts), default=(0, False)
    )
    has_hours = any(forecast.hours is not None for forecast in forecasts)
    return _row(
        name,
        f"{sum(forecast.left for forecast in forecasts):,}",
        ("" if all(forecast.exact for forecast in forecasts) else "~")
        + f"{sum(forecast.answered for forecast in forecasts):,}",
        _count(sum(forecast.input_tokens for forecast in forecasts)),
        _count(sum(forecast.output_tokens for forecast in forecasts)),
        f"{'~' if guessed else ''}{max(hours, 0.1 if hours else 0):,.1f} h" if has_hours else "-",
    )


def _dollar_cells(forecast: JudgeForecast, mode: str) -> list[str]:
    spread = forecast.batch if mode == "batch" else forecast.online
    mark = "*" if mode == "batch" and not forecast.has_batch else ""
    return [cell + mark for cell in _amounts(spread)] if spread else ["?", "?", "?"]


def _amounts(spread: Spread) -> list[str]:
    return [
        format_dollars(spread.low),
        format_dollars(spread.expected),
        format_dollars(spread.high),
    ]


def _count(tokens: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= unit:
            return f"{tokens / unit:,.1f}{name}"
    return f"{tokens:.0f}"


def _wrapped(note: str) -> list[str]:
    return textwrap.wrap(note, 100, break_long_words=False, break_on_hyphens=False)


def _notes(estimate: CostEstimate, *, pilot: bool) -> Iterable[str]:
    """Explain the marks and the assumptions, and what to do."""
    forecasts = [forecast for forecast in estimate.forecasts if forecast.left]
    if replies := sum(forecast.replies for forecast in forecasts):
        yield (
            f"Token estimates are based on {counted(replies, 'reply', 'replies')}; low and high "
            "are two standard errors away, at least 5%."
        )
    if names := ", ".join(
        forecast.judge for forecast in forecasts if forecast.input_tokens and not forecast.replies
    ):
        by_letter = any(forecast.one_token for forecast in forecasts)
        answer = "250 per answer" + (", 1 where it is a letter" if by_letter else "")
        hint = " --pilot 20 asks about 20 queries only, and measures both." if pilot else ""
        yield (
            f"No replies of {names} yet: assumed are 1 token per 4 bytes of prompt and "
            f"{answer}.{hint}"
        )
    if unpriced := estimate.unpriced:
        yield (
            "? is an unknown price. Give it in the config file, in dollars for a million "
            f'tokens, such as prices: {{"{unpriced[0]}": {{input: 0.10, output: 0.50}}}}'
        )
    if not all(forecast.exact for forecast in estimate.forecasts):
        yield "~ answered is an estimate, from a sample of the queries."
    if guessed := [forecast.judge for forecast in forecasts if forecast.guessed]:
        yield (
            "~ assumes cautious limits, until the server reports its own. Give the account's in "
            f'the config file, such as limits: {{"{guessed[0]}": {{rpm: 5000, tpm: 2000000}}}}'
        )
    if any(forecast.has_batch for forecast in forecasts):
        lack = (
            ""
            if all(forecast.has_batch for forecast in forecasts)
            else " * has no batch API: asked online."
        )
        yield f"Batches may take up to 24 hours.{lack}"
    if pilot:
        yield (
            "The standard error of a score falls with the square root of the number of "
            "comparisons: four times the calls halve it at best."
        )
    if estimate.maybe:
        counts = "" if estimate.max_usd is None else " It counts as spent."
        doubt = describe_possibly_billed(estimate.maybe, estimate.uncounted)
        yield f"{doubt.replace('up to', 'Up to', 1)}.{counts}"
    if estimate.max_usd is not None:
        cost, spent = estimate.dollars(estimate.mode), estimate.spent + estimate.maybe
        enough = spent + cost.high <= estimate.max_usd
        surely = "will" if spent + cost.low > estimate.max_usd else "may"
        budget = f"the budget of ${estimate.max_usd:g} (--max-usd)"
        if enough:
            yield f"The run stays within {budget}."
        else:
            yield f"The run {surely} exhaust {budget} before it finishes."
        if estimate.mode == "batch" and estimate.batch_reserve.first:
            yield _rounds(estimate, estimate.max_usd - spent, spent)


def _rounds(estimate: CostEstimate, room: float, spent: float) -> str:
    """Say how many rounds of batches fit the cap, as each reserves its highest cost."""
    times = count_waves(room, estimate.dollars("batch").expected, estimate.batch_reserve)
    effect = f"takes about {counted(times, 'round')}" if times else "does not suffice"
    price = format_dollars(math.ceil(100 * (spent + estimate.batch_reserve.first)) / 100)
    more = "" if times == 1 else f", one after another; {price} would take one"
    return f"Batches reserve the most that they may cost: this budget {effect}{more}."
