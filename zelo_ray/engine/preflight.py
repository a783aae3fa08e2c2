"""Check what could go wrong before a run asks anything, and warn or refuse."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from zelo_ray.engine.batch import goes_in_batches
from zelo_ray.engine.batch.parts import Parts, sum_possibly_billed
from zelo_ray.engine.job import Watch
from zelo_ray.engine.ledger import Paid, describe_damage, sum_paid
from zelo_ray.engine.replies import describe_possibly_billed
from zelo_ray.errors import PanelError
from zelo_ray.files.conversations import join_sessions
from zelo_ray.files.wording import counted
from zelo_ray.options import AnnotateOptions, AskingOptions, JudgingOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import load_provider, server_chooses_sampling
from zelo_ray.providers.dotenv import describe_keys
from zelo_ray.providers.pricing import find_unpriced
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Judge

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
    """Return the dollars spent before a run asks anything, and the ledger's; warn of other things.

    Spent is what the ledger holds, what may have been billed besides, and what lies in batches of
    other judges than ``own_judges``, which this run will not collect. ``judges`` are by the names
    that users know them by.

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
    others = sum(
        part.dollars
        for part in Parts(options.ledger_dir)
        if part.is_open and part.judge not in own_judges
    )
    return paid.all_dollars + possibly_billed + others, paid


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
