"""Write open documents or pairs as records of Argilla 2, and read the answers from its exports.

Read are lists of records, as ``dataset.records.to_list(flatten=True)`` makes them, with statuses of
responses, and as ``to_json`` writes them, without.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from zelo_ray.commands.label.desk import SampleItem
from zelo_ray.commands.label.spreadsheet import Row
from zelo_ray.commands.label.task_files import (
    ANSWER,
    NOTE,
    Exported,
    LabelTool,
    TimedRow,
    fill_texts,
    find_choice,
    join_texts,
    keep_latest,
    name_person,
    title_texts,
)
from zelo_ray.errors import InputError
from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.judgments.label_units import AnswerChoice, LabelUnit

_TEXT = {"type": "text", "use_markdown": False}


def write_records(
    url: str,
    items: Sequence[SampleItem],
    unit: LabelUnit,
    choices: Sequence[AnswerChoice],
    guide: str,
) -> str:
    """Write items as records, and the settings of their dataset beside them.

    Args:
        url: of the records; the settings have ``-settings`` before the ending.
        items: to judge, in order.
        unit: whether they are documents or pairs.
        choices: of the answer.
        guide: what the choices mean.

    Returns:
        What a person does next, in words.
    """
    settings = f"{url.removesuffix('.json')}-settings.json"
    records = [{"id": item.key, "fields": fill_texts(item, unit)} for item in items]
    for place, content in ((url, records), (settings, make_settings(unit, choices, guide))):
        with open_for_writing(place) as file:  # in ASCII, as Argilla reads in the locale's coding
            file.write(json.dumps(content, indent=1).encode())
    return (
        f"In Argilla, make a dataset with Settings.from_json({settings!r}), add the records by "
        f"records.from_json({url!r}), and when people have labelled save "
        "records.to_list(flatten=True) as JSON"
    )


def make_settings(unit: LabelUnit, choices: Sequence[AnswerChoice], guide: str) -> Exported:
    """Return the settings of a dataset, as `Settings.from_json` of Argilla reads them."""
    options = [{"value": choice.word, "text": choice.words} for choice in choices]
    answer = {"type": "label_selection", "options": options, "visible_options": None}
    fields = [_property(name, title, _TEXT) for name, title in title_texts(unit).items()]
    questions = [
        _property(ANSWER, ANSWER.capitalize(), answer),
        _property(NOTE, "Why? (may stay empty)", _TEXT, required=False),
    ]
    return {
        "guidelines": guide,
        "fields": fields,
        "questions": questions,
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "mapping": None,
    }


def is_record(exported: Exported) -> bool:
    """Return whether an object is a record of Argilla, flat or not, answered or not."""
    return "_server_id" in exported or {"fields", "responses"} <= exported.keys()


def read_records(
    url: str, records: Sequence[Exported], person: str, choices: Sequence[AnswerChoice]
) -> list[Row]:
    """Read the answers from an export.

    Where it has the status of a response, only submitted ones are answers.

    Args:
        url: of the export.
        records: its objects.
        person: the one who answered, where a response names nobody.
        choices: of the answer.

    Raises:
        InputError: an answer is none of the choices, or a record has no id, or nobody is named.
    """
    rows = list[TimedRow]()
    for number, record in enumerate(records, 1):
        key = record.get("id")
        place = f"{url}: record {key or number}"
        notes = {user: join_texts(value) for value, user, _ in _responses(record, NOTE)}
        for value, user, status in _responses(record, ANSWER):
            if status not in (None, "submitted") or value in (None, ""):
                continue
            if not isinstance(key, str) or not key:
                raise InputError(f"{place}: has no id; was it written by --argilla?")
            choice = find_choice(place, str(value), choices)
            who = name_person(place, user, person)
            rows.append(TimedRow("", Row(place, who, key, choice.value, notes.get(user, ""))))
    return keep_latest(rows)


def _property(
    name: str, title: str, settings: Exported, *, required: bool = True
) -> Mapping[str, object]:
    return {"name": name, "title": title, "required": required, "settings": settings}


def _responses(record: Exported, question: str) -> Iterator[tuple[object, str, object]]:
    """Yield the value, the user's id and the status (None if unknown) of responses."""
    flat = f"{question}.responses"
    if flat in record:
        columns = (record.get(name) or [] for name in (flat, f"{flat}.users", f"{flat}.status"))
        for value, user, status in zip_longest(*columns):
            yield value, str(user), status
        return
    responses = record.get("responses")
    answers = responses.get(question) if isinstance(responses, dict) else None
    for response in (row for row in answers or () if isinstance(row, dict)):
        yield response.get("value"), str(response.get("user_id")), response.get("status")


ARGILLA = LabelTool("Argilla", write_records, is_record, read_records)
