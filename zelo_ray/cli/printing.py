"""Print reports, lines and tables."""

from typing import TYPE_CHECKING

from zelo_ray.files.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

    from zelo_ray.reports.document import CommandResult
    from zelo_ray.reports.parts import Report
    from zelo_ray.reports.terminal import Line

_WIDE = 160  # characters of a line if there is no terminal


def show_result(result: "CommandResult") -> None:
    """Write the page of a result, and print it for people: report, lines, next command."""
    if result.report:
        print_report(result.report)
    print_lines(*result.lines)
    print_next_step(result.next_command)


def print_report(report: "Report") -> None:
    """Write the page of a report, if it has results, and print it."""
    from zelo_ray.reports.page import write_page
    from zelo_ray.reports.terminal import render_lines

    has_page = bool(report.out)
    written = has_page and write_page(report)
    print_lines(
        *render_lines(report, make_console().width, with_warnings=written, has_page=has_page)
    )


def print_next_step(command: str | None) -> None:
    """Print the suggested next command, if there is one."""
    from zelo_ray.reports.next_step import next_line

    if command:
        print_lines(next_line(command))


def make_console() -> "Console":
    """Return a console for the terminal, or a wide one if there is none."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDE
    return console


def print_lines(*parts: "Line") -> None:
    """Print lines and tables, with control characters escaped."""
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        else:
            make_console().print(part)
