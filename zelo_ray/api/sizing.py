"""`size` from Python."""

from collections.abc import Iterator
from html import escape
from math import isnan

from rich.table import Table as RichTable

from zelo_ray.api.results import WIDTH, text_of
from zelo_ray.api.settings import Place, options_of
from zelo_ray.api.tables import Table, Text
from zelo_ray.commands.size import Sized
from zelo_ray.commands.size import size as simulated
from zelo_ray.commands.size.report import build_report
from zelo_ray.formats.results import Results, write_text
from zelo_ray.options import SizeOptions
from zelo_ray.report.page import render_page
from zelo_ray.report.terminal import Line

PAGE, TABLE = "size.html", "size"


class Sizing(Table):
    """Table of the cost and error of plans of calls, one row per plan.

    Attributes:
        answer: which plan reaches the error that was asked for; empty if none was.
        notes: what was simulated, and what columns mean.
    """

    def __init__(self, sized: Sized, out: str = "") -> None:
        super().__init__(sized.table())
        self.answer, self.notes = sized.answer, list(sized.notes)
        self._sized, self._out = sized, out

    def parts(self, width: int) -> Iterator[Line]:
        """Yield what the terminal shows, as lines and a table."""
        del width  # a row takes as much as it takes
        yield from self._parts()

    def _parts(self) -> Iterator[str | RichTable]:
        sized = self._sized
        priced = not isnan(sized.dollars_a_call)
        calls = f"calls for {sized.queries:,}"
        table = RichTable(box=None, pad_edge=False)
        table.add_column("plan", no_wrap=True)
        costs = ["calls a doc", calls, *(["dollars"] if priced else [])]
        for name in (*costs, "loss", "std_error", "distance", "largest", "tau"):
            table.add_column(name, justify="right", no_wrap=True)
        for size in sized.sizes:
            table.add_row(
                size.plan,
                f"{size.calls_a_document:.1f}",
                f"{size.calls * sized.queries:,.0f}",
                *([f"{sized.dollars(size):,.2f}"] if priced else []),
                *(f"{x:.3f}" for x in (size.loss,)),
                *(f"{x:.2f}" for x in (size.std_error, size.rmse, size.largest, size.tau)),
            )
        yield table
        yield from ["", *sized.notes]
        if sized.answer:
            yield from ["", sized.answer]
        if self._out:
            yield f"results: {self._out}/{PAGE}, {TABLE}.parquet"

    def told(self, width: int = WIDTH) -> Text:
        """Return the text that the terminal shows."""
        return text_of(self.parts(width), width)

    def __repr__(self) -> str:
        return str(self.told())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.told())}</pre>"


def size(*, out: Place | None = None, config: Place | None = None, **options: object) -> Sizing:
    """Estimate, without any call, how many calls an error takes, and what fewer calls lose.

    Pools and votes are simulated, plans of both protocols are played on them, and their scores are
    compared with the truth and with those of all pairs.

    Args:
        out: directory or URL for ``size.html`` and ``size.parquet``; nothing is written without.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray size``, such as ``error``, ``documents`` and ``judges_from``.

    Returns:
        A row a plan: ``calls`` and ``dollars`` of all queries, ``calls_a_document``, ``loss`` of
        nDCG@10, ``std_error``, and ``rmse``, ``largest`` and ``tau`` against all pairs; and the
        ``answer``.

    Raises:
        OptionError: an option makes no sense.
        InputError: the pilot cannot be read.

    Example:
        >>> found = size(documents=10, pools=8, cycles=[1, 4], calls=[4], error=0.9)
        >>> found.answer.startswith("A std_error of 0.9 takes")
        True
    """
    return sized(options_of(SizeOptions, {"out": out, **options}, config))


def sized(options: SizeOptions) -> Sizing:
    """Size plans as `size` does, by an options object."""
    simulation = simulated(options)
    if options.out:
        out = options.out.rstrip("/")
        table = simulation.table()
        with Results(out, {TABLE: table.schema}) as results:
            results.add(TABLE, table)
        write_text(out, PAGE, render_page(build_report(simulation)))
        return Sizing(simulation, out)
    return Sizing(simulation)
