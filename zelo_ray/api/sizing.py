"""Provide `size`, and the `Sizing` that it returns."""

from collections.abc import Iterator
from html import escape

from zelo_ray.api.results import WIDTH, render_text
from zelo_ray.api.settings import Place, options_of
from zelo_ray.api.tables import PlainText, Table
from zelo_ray.commands.size.run import TABLE, run
from zelo_ray.options import SizeOptions
from zelo_ray.reports.page import write_page
from zelo_ray.reports.parts import Report
from zelo_ray.reports.terminal import Line, render_lines


class Sizing(Table):
    """Table of the cost and error of plans of calls, one row per plan.

    Attributes:
        answer: the plan that reaches the wanted error; empty if no error was given.
        notes: on the simulation, and on the columns.
        report: for the terminal and the page.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report.tables[TABLE])
        self.answer, self.notes = report.record["answer"], report.record["notes"]
        self.report = report

    def lines(self, width: int) -> Iterator[Line]:
        """Yield the lines and the table that the terminal shows."""
        yield from render_lines(self.report, width, with_warnings=False, has_page=True)

    def to_text(self, width: int = WIDTH) -> PlainText:
        """Return the text that the terminal shows."""
        return render_text(self.lines(width), width)

    def __repr__(self) -> str:
        return str(self.to_text())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


def size(*, out: Place | None = None, config: Place | None = None, **options: object) -> Sizing:
    """Estimate, without any call, how many calls an error takes, and the loss with fewer calls.

    Pools and votes are simulated, plans of both protocols are run on them, and their scores are
    compared with the true ones and with those of all pairs.

    Args:
        out: directory or URL for ``size.html`` and ``size.parquet``; nothing is written without.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray size``, such as ``error``, ``documents`` and ``judges_from``.

    Returns:
        A row a plan: ``calls`` and ``dollars`` of all queries, ``calls_a_document``, ``loss`` of
        nDCG@10, ``std_error``, and ``rmse``, ``largest`` and ``tau`` against all pairs; and the
        ``answer``.

    Raises:
        OptionError: an option is invalid.
        InputError: the pilot cannot be read.

    Example:
        >>> sizing = size(documents=10, pools=8, cycles=[1, 4], calls=[4], error=0.9)
        >>> sizing.answer.startswith("A std_error of 0.9 takes")
        True
    """
    report = run(options_of(SizeOptions, {"out": out, **options}, config))
    if report.out:
        write_page(report)
    return Sizing(report)
