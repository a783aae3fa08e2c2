"""Return estimates of jobs as numbers for JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from zelo_ray.commands.dry_run import JobPreview, sum_dollars
from zelo_ray.engine.estimate import JudgeForecast


def cost_figures(jobs: Mapping[str, JobPreview]) -> dict[str, Any]:
    """Return the estimates of some jobs by name, and their sum.

    Dollars are US dollars, as ``low``, ``expected`` and ``high``, without judges of unknown price.
    """
    estimates = [job.estimate for job in jobs.values()]
    return {
        "requests_left": sum(f.left for estimate in estimates for f in estimate.forecasts),
        "dollars": asdict(sum_dollars(estimates)),
        "unpriced": sorted({judge for estimate in estimates for judge in estimate.unpriced}),
        "estimates": [_job_figures(name, job) for name, job in jobs.items()],
    }


def _job_figures(name: str, job: JobPreview) -> dict[str, Any]:
    estimate = job.estimate
    return {
        "name": name,
        "queries": estimate.pools,
        "mode": estimate.mode,
        "dollars": asdict(estimate.dollars(estimate.mode)),
        "spent": estimate.spent,
        "possibly_billed": estimate.maybe,
        "replies_of_unknown_price": estimate.unknown,
        "max_usd": estimate.max_usd,
        "sufficient_max_usd": job.cap or None,
        "judges": [_judge_figures(forecast) for forecast in estimate.forecasts],
    }


def _judge_figures(forecast: JudgeForecast) -> dict[str, Any]:
    return {
        "judge": forecast.judge,
        "requests": forecast.planned,
        "answered": forecast.answered,
        "left": forecast.left,
        "is_exact": forecast.exact,
        "input_tokens": forecast.input_tokens,
        "output_tokens": forecast.output_tokens,
        "online": forecast.online and asdict(forecast.online),
        "batch": forecast.batch and asdict(forecast.batch),
        "has_batch": forecast.has_batch,
        "hours": forecast.hours,
        "hours_are_guessed": forecast.guessed,
        "replies": forecast.replies,
    }
