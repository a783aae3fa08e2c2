"""Check what could go wrong before a run asks anything, and warn or refuse."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, starmap

from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.batch.parts import Parts, sum_possibly_billed
from zelo_ray.engine.count_input import Count
from zelo_ray.engine.job import Watch
from zelo_ray.engine.ledger import Paid, describe_damage, sum_paid
from zelo_ray.engine.replies import describe_possibly_billed, format_dollars
from zelo_ray.engine.sample_input import NoReplies
from zelo_ray.engine.tokens import Estimates, measure_request
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.files.conversations import join_sessions
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions, AskingOptions, JudgingOptions
from zelo_ray.protocols import find_protocol, load_protocol
from zelo_ray.protocols.progress import advance
from zelo_ray.providers import load_provider, server_chooses_sampling
from zelo_ray.providers.dotenv import describe_keys
from zelo_ray.providers.pricing import find_unpriced, highest_price
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Judge, Pool, Request

_NAMED = 5


def files_to_judge(
    options: JudgingOptions, shards: list[str], watch: Watch
) -> tuple[list[str], int]:
    """Return the files to judge, and how many lines were set aside when sessions were joined."""
    if options.blocks == "query":
        return shards, 0
    sessions = join_sessions(shards, options.out)
    if names := sessions.left_out:
        few = ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
        skipped = counted(len(names), "assistant")
        watch.say(f"Skipped {skipped} that did not answer every turn: {few}")
    return [sessions.path], sessions.rejected


def refuse_pending_batches(options: AnnotateOptions, panel: Sequence[Judge], watch: Watch) -> None:
    """Refuse online requests that were already submitted in a batch, as that is paid for.

    Raises:
        PanelError: a judge that is to be asked online has open batches.
    """
    pending = Counter[str]()
    for part in Parts(options.ledger_dir):
        if part.is_open:
            pending[part.judge] += part.requests
    for judge in panel:
        if pending.pop(judge.name, 0) and not goes_in_batches(judge, options):
            raise PanelError(
                f"{judge.name} has pending batch requests; collect them with --mode batch (or "
                f"cancel them first: zelo-ray batches {options.ledger_dir} --cancel)"
            )
    for name, count in pending.items():
        watch.say(f"{name}, which is not on this panel, still has {count:,} pending batch requests")


def check_spending(
    options: AskingOptions,
    judges: Mapping[str, Judge],
    watch: Watch,
    own_judges: Collection[str] = (),
) -> tuple[float, Paid]:
    """Return the dollars spent before a run asks anything; warn of what else is wrong.

    Spent is what the ledger holds, what may have been billed besides, and what lies in batches of
    other judges than ``own_judges``, which this run will not collect. What the ledger holds comes
    with it.

    Args:
        options: the run's.
        judges: those that it asks, by the names that users know them by.
        watch: who is told.
        own_judges: names of judges.

    Raises:
        LedgerError: the ledger, or a record beside it, cannot be read.
    """
    for line in describe_keys(judges, options.api_key_env, os.environ):
        watch.say(line)
    where = "judge_options" if isinstance(options, JudgingOptions) else "reranker_options"
    for name in (name for name, judge in judges.items() if server_chooses_sampling(judge)):
        watch.say(
            f"{name}: no temperature is set, so the server's default applies (often that of the "
            f"model's generation_config); set one in {where}, such as temperature: 0"
        )
    paid, possibly_billed = sum_paid(options.ledger_dir), sum_possibly_billed(options.ledger_dir)
    if paid.damaged:
        watch.say(describe_damage(paid.damaged))
    if possibly_billed:
        doubt = describe_possibly_billed(possibly_billed)
        watch.say(f"{doubt}{'' if options.max_usd is None else '; it counts as spent'}")
    others = [p for p in Parts(options.ledger_dir) if p.is_open and p.judge not in own_judges]
    return paid.all_dollars + possibly_billed + sum(part.dollars for part in others), paid


def refuse_small_cap(
    cap: float | None,
    spent: float,
    plans: Iterable[tuple[AnnotateOptions, Sequence[Judge]]],
    shards: Sequence[str],
) -> None:
    """Refuse a cap that is too small for a single call: the run would stop at once.

    Args:
        cap: dollars that all runs may cost, if there is a cap.
        spent: dollars of it that are spent; only where there are none is the cap itself too small.
        plans: how judges are asked, and which.
        shards: the files of the input; their first pools tell.

    Raises:
        OptionError: the cheapest of the first calls may cost more than the cap.
    """
    if cap is None or spent:
        return
    lines = [line for shard in shards[:1] for line in islice(read_lines(shard, LineLimits()), 4)]
    first_requests = (
        (request, options)
        for options, panel in plans
        for pool in (line.pool for line in lines if line.pool)
        for request in advance(
            find_protocol(options.protocol).rounds(pool, panel, options), NoReplies()
        ).missing
    )
    cheapest = min(starmap(_highest_cost, first_requests), default=0.0)
    if cheapest > cap:
        price = format_dollars(cheapest) if cheapest >= 0.001 else f"${cheapest:.2g}"
        raise OptionError(
            f"--max-usd {cap:g} is less than one call may cost ({price}): raise it, or lower "
            "max_output_tokens"
        )


def _highest_cost(request: Request, options: AnnotateOptions) -> float:
    estimates = Estimates(request.judge)
    usage = estimates.upper_bound(measure_request(request), request.output_limit)
    in_batch = goes_in_batches(request.judge, options)
    return highest_price(request.judge, usage, options.prices, batch=in_batch)


def warn_of_settings(options: AnnotateOptions, panel: Sequence[Judge], watch: Watch) -> None:
    """Warn of settings with a surprising effect: unknown prices, no prompt, slow batches."""
    for name in find_unpriced(panel, options.prices):
        watch.say(
            f"{name}: its price is unknown, and only a cost that its server reports is counted; "
            "give it in the options (prices:)"
        )
    names = judges_without_prompt(judge.name for judge in panel)
    unread = "template" if getattr(options, "template", None) else ""
    if names and (unread := "instructions" if options.instructions else unread):
        verb = "reads" if len(names) == 1 else "read"
        watch.say(f"{', '.join(names)} {verb} no prompt, and so no {unread}")
    rounds = load_protocol(options.protocol).max_rounds
    if rounds != 1 and any(goes_in_batches(judge, options) for judge in panel):
        several = f"up to {rounds}" if rounds else "several"
        watch.say(f"{options.protocol} asks {several} rounds of batches, each may take a day")
    for judge in panel:
        limits = options.limits.get(judge.name)
        rpm = load_provider(judge.provider).rates.get("rpm")
        if goes_in_batches(judge, options):
            watch.say(f"{judge.name}: in batches, which may take a day; Ctrl-C leaves them running")
        elif rpm and not judge.base_url and not (limits and limits.rpm):
            watch.say(
                f"{judge.name}: its rate limit is unknown; starting at {rpm:,.0f} requests a "
                "minute and adapting to the server's headers (or give limits: rpm, tpm)"
            )


def request_counters(options: AnnotateOptions, panel: Sequence[Judge]) -> dict[str, Count]:
    """Return for each judge a function that counts its requests about a pool."""
    protocol, last = load_protocol(options.protocol), list[tuple[Pool, Mapping[str, int]]]()

    def count(name: str, pool: Pool) -> int:
        if not last or last[0][0] is not pool:
            last[:] = [(pool, protocol.count(pool, panel, options))]
        return last[0][1][name]

    return {judge.name: partial(count, judge.name) for judge in panel}
