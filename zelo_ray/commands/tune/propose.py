"""Ask a model for other instructions, by errors of what is as it is on the first half."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from zelo_ray.commands.annotate.job import judge_pools
from zelo_ray.commands.compare_protocols.people import People
from zelo_ray.commands.tune.candidates import BY_JUDGE, PROPOSAL, Candidate, plan_candidate
from zelo_ray.commands.tune.halves import Half
from zelo_ray.commands.tune.misjudged import (
    describe_people,
    find_misjudged,
    read_documents,
    read_statements,
)
from zelo_ray.engine.job import Watch
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import OptionError
from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.results import read_table
from zelo_ray.formats.wording import counted
from zelo_ray.options import AnnotateOptions, TuneOptions
from zelo_ray.protocols.proposals import (
    JUDGES,
    MOST,
    NAME,
    NONE_YET,
    PEOPLE,
    QUERY,
    Proposal,
    ProposalOptions,
    usable_instructions,
)
from zelo_ray.protocols.texts import shown_document, shown_query
from zelo_ray.providers import build_panel

CASES = 12
"""Errors that the model is shown."""
_CASES, _TOKENS = "cases.jsonl", 500
_NOT_PASSED = {
    *("instructions", "show_query", "passages", "document_limit", "show_metadata"),
    *("corpus", "queries", "columns", "blocks", "dry_run", "mode", "protocol"),
}
"""Options that do not apply to errors, and the mode: a model is asked for proposals online."""


def proposer_of(options: TuneOptions) -> str:
    """Return the name of the model that proposes; "" if none does.

    Raises:
        OptionError: it is not one model, or judges could not have other instructions.
        PanelError: there is no such model.
    """
    if not options.propose:
        if options.proposer:
            raise OptionError("--proposer: needs --propose N, the number of proposals")
        return ""
    try:  # a proposal that cannot be judged would be paid for in vain
        any_proposal = Candidate(f"{PROPOSAL}1", options.protocol, {"instructions": "Any words."})
        plan_candidate(options, any_proposal, ("-",), "-")
    except OptionError as error:
        raise OptionError(f"--propose: no proposal could be judged; {error}") from None
    names = (options.proposer,) if options.proposer else options.judges
    panel = build_panel(names, {}, os.environ)
    if options.proposer and len(panel) > 1:
        raise OptionError(f"--proposer {options.proposer}: is a panel; name one model")
    return panel[0].name


def plan_proposals(
    options: TuneOptions,
    as_it_is: AnnotateOptions,
    half: Half,
    people: People,
    verdicts: Sequence[int],
) -> ProposalOptions | None:
    """Write the errors of what is as it is to a file; return the run that asks for proposals.

    Its folder is named by what is asked, so that the same errors are asked about once.

    Args:
        options: of the command, whose cap holds.
        as_it_is: the options of the run on the first half.
        half: the first one; nothing else is read.
        people: their judgments.
        verdicts: on the items of the half.

    Returns:
        The options of the run; None if there is no error to learn from.
    """
    proposer = proposer_of(options)
    if not (cases := list(find_cases(as_it_is, half, people, verdicts))):
        return None
    query = {"id": "errors", "query": as_it_is.instructions or NONE_YET}
    line = orjson.dumps({"query": query, "documents": cases})
    digest = hashlib.sha256(line + f"{options.propose} {proposer}".encode()).hexdigest()[:8]
    out = f"{options.out.rstrip('/')}/proposals/{digest}"
    with open_for_writing(f"{out}/{_CASES}") as stream:
        stream.write(line + b"\n")
    return proposal_options(options, proposer, f"{out}/{_CASES}", out)


def proposal_options(options: TuneOptions, proposer: str, cases: str, out: str) -> ProposalOptions:
    """Return the options of the run that asks for proposals: online, with the command's cap.

    Args:
        options: of the command.
        proposer: the model that proposes.
        cases: the file of the errors.
        out: directory or URL of the run.
    """
    passed = (AnnotateOptions.model_fields.keys() & options.model_fields_set) - _NOT_PASSED
    values: dict[str, Any] = {name: getattr(options, name) for name in passed}
    for name in BY_JUDGE:
        by_judge = getattr(options, name)
        values[name] = {proposer: by_judge[proposer]} if proposer in by_judge else {}
    values |= {"protocol": NAME, "judges": (proposer,), "count": options.propose}
    values |= {"inputs": (cases,), "out": out, "ledger": options.ledger_dir}
    return ProposalOptions.model_validate({**values, "document_tokens": _TOKENS})


def find_cases(
    options: AnnotateOptions, half: Half, people: People, verdicts: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the errors of a run on a half, as documents of the pool that a model is asked about.

    Args:
        options: of the run.
        half: whose items and pools are read.
        people: their judgments.
        verdicts: of the run, on the items of the half.
    """
    misjudged = find_misjudged(half.items, [verdicts], CASES)
    places = [(entry.query_id, entry.doc_id) for entry in misjudged]
    documents = read_documents(half.pools, set(places))
    statements = read_statements(options.out, options.protocol, set(places))
    for number, place in enumerate(places, 1):
        pool, document = documents[place]
        metadata = {
            QUERY: shown_query(pool, options.show_query),
            PEOPLE: describe_people(people, half.items, place),
            JUDGES: "\n".join(words for _, words in statements.get(place, ())),
        }
        text = shown_document(document, pool, options).content
        yield {"id": f"case-{number}", "content": text, "metadata": metadata}


def ask_for_proposals(
    options: TuneOptions, plan: ProposalOptions, watch: Watch
) -> tuple[list[Candidate], list[str], Summary]:
    """Ask the model, and make a candidate of each proposal that can be used.

    Returns:
        The candidates, notes on proposals that cannot be used, and the summary of the run.
    """
    summary = judge_pools(plan, watch)
    rows: list[dict[str, Any]] = read_table(
        plan.out, "proposals", ("number", "instructions", "why"), Proposal
    ).to_pylist()
    candidates, notes = list[Candidate](), list[str]()
    for row in rows:
        if text := usable_instructions(row["instructions"]):
            name = f"{PROPOSAL}{row['number']}"
            candidates.append(Candidate(name, options.protocol, {"instructions": text}, row["why"]))
        else:
            size = counted(len(row["instructions"]), "character")
            notes.append(
                f"proposal {row['number']} is left out: it has {size}, and may have up to {MOST:,} "
                "in several words"
            )
    if len(rows) < options.propose:
        notes.append(f"the model made {len(rows):,} of {counted(options.propose, 'proposal')}")
    return candidates, notes, summary
