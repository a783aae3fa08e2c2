"""`size` from Python."""

from collections.abc import Iterator
from html import escape

from zelo_ray.api.results import WIDTH, text_of
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
        answer: which plan reaches the error that was asked for; empty if none was.
        notes: what was simulated, and what columns mean.
        report: the same as the terminal and the page show it.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report.tables[TABLE])
        self.answer, self.notes = report.record["answer"], report.record["notes"]
        self.report = report

    def lines(self, width: int) -> Iterator[Line]:
        """Yield what the terminal shows, as lines and a table."""
        yield from render_lines(self.report, width, with_warnings=False, has_page=True)

    def to_text(self, width: int = WIDTH) -> PlainText:
        """Return the text that the terminal shows."""
        return text_of(self.lines(width), width)

    def __repr__(self) -> str:
        return str(self.to_text())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


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
    report = run(options_of(SizeOptions, {"out": out, **options}, config))
    if report.out:
        write_page(report)
    return Sizing(report)
