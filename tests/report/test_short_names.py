"""Names of judges are short where people read them, and whole in files and for programs."""

from markupsafe import Markup

from zelo_ray.report.model import Report, Section, Warn, chart, short_names, table, with_short_names

LONG = "openai:Qwen/Qwen3-32B@http://localhost:8000/v1"


def test_a_name_lacks_folders_and_the_url_where_it_is_still_one():
    names = [
        LONG,
        "openai:gpt-6-luna",
        "recorded:/a/b/reader.jsonl",
        "listwise:openai:x@https://h/v1",
    ]
    assert short_names(names) == {
        LONG: "openai:Qwen3-32B",
        "recorded:/a/b/reader.jsonl": "recorded:reader.jsonl",
        "listwise:openai:x@https://h/v1": "listwise:openai:x",
    }
    assert short_names(["recorded:a/x.jsonl", "recorded:b/x.jsonl"]) == {}
    assert short_names(["openai:m", "openai:m@http://h/v1"]) == {}


def test_a_report_is_short_everywhere_and_says_it_once():
    advice = f"Ask --judges {LONG}"
    picture = chart(Markup("<text>{}</text>").format(LONG), "Of judges")
    rows = table([{"of": LONG}], {"judge": "of"})
    report = Report(
        "A title",
        lead=[f"{LONG} is best."],
        sections=[Section("a", "A", [picture, rows, rows])],
        find_warnings=lambda: [Warn("place", "note", f"{LONG} sways", advice)],
        names=[LONG, "openai:gpt-6-luna"],
    )
    shown = with_short_names(report)
    [warn], (section,) = shown.warnings, shown.sections
    assert (shown.lead, warn.text) == (["openai:Qwen3-32B is best."], "openai:Qwen3-32B sways")
    assert warn.advice == advice, "it can be typed"
    assert section.parts[0].pictures[()] == "<text>openai:Qwen3-32B</text>"
    assert [part.rows for part in section.parts[1:]] == [[["openai:Qwen3-32B"]]] * 2
    assert [LONG in part.caption for part in section.parts[1:]] == [True, False]
    assert report.sections[0].parts[1].rows == [[LONG]]
