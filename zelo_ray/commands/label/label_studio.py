"""Write open documents or pairs as tasks of Label Studio, and read the answers from its exports.

A task is ``{"data": {"key", "query", "document"}}``. Of the exports JSON is read, whose tasks have
annotations, and JSON-MIN, which has one object for each annotation.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

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

_UNSURE_KEY = "9"
"""The key of "cannot say"; letters are keys of Label Studio itself."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_tasks(
    url: str,
    items: Sequence[SampleItem],
    unit: LabelUnit,
    choices: Sequence[AnswerChoice],
    guide: str,
) -> str:
    """Write items as tasks, and the labelling interface beside them as XML.

    Args:
        url: of the tasks; the interface has the ending ``.xml`` instead.
        items: to judge, in order.
        unit: whether they are documents or pairs.
        choices: of the answer.
        guide: what the choices mean.

    Returns:
        What a person does next, in words.
    """
    interface = f"{url.removesuffix('.json')}.xml"
    tasks = [{"data": {"key": item.key, **fill_texts(item, unit)}} for item in items]
    with open_for_writing(url) as file:
        file.write(json.dumps(tasks, indent=1).encode())
    with open_for_writing(interface) as file:
        file.write(make_interface(unit, choices, guide).encode())
    return (
        f"In Label Studio, make a project, paste {interface} into the code of its labeling "
        f"interface, import {url}, and when people have labelled export JSON"
    )


def make_interface(unit: LabelUnit, choices: Sequence[AnswerChoice], guide: str) -> str:
    """Return the labelling interface as XML: texts, choices with keys, a note, what they mean."""
    judged = unit.texts[-1]
    lines = ["<View>"]
    for name, heading in title_texts(unit).items():
        lines.append(f"  <Header value={_quoted(heading)}/>")
        lines.append(f'  <Text name="{name}" value="${name}" valueType="text"/>')
    lines.append(
        f'  <Choices name="{ANSWER}" toName="{judged}" choice="single-radio" required="true">'
    )
    for number, choice in enumerate(choices, 1):
        key = choice.word if choice.word.isdecimal() else f"{number}"
        key = _UNSURE_KEY if choice.value is None else key
        lines.append(
            f"    <Choice value={_quoted(choice.words)} alias={_quoted(choice.word)} "
            f'hotkey="{key}"/>'
        )
    lines.append("  </Choices>")
    lines.append(
        f'  <TextArea name="{NOTE}" toName="{judged}" placeholder="Why? (may stay empty)" '
        'required="false" maxSubmissions="1" editable="true"/>'
    )
    lines += (
        f'  <Header value={_quoted(line)} size="6"/>'
        for line in map(str.strip, guide.splitlines())
        if line
    )
    return "\n".join([*lines, "</View>", ""])


def is_task(exported: Exported) -> bool:
    """Return whether an object is of an export of Label Studio, JSON or JSON-MIN."""
    return isinstance(exported.get("annotations"), list) or "annotation_id" in exported


def read_tasks(
    url: str, tasks: Sequence[Exported], person: str, choices: Sequence[AnswerChoice]
) -> list[Row]:
    """Read the answers from an export: the last of each person on each document.

    Skipped tasks, drafts, predictions, and annotations without a choice are no answers.

    Args:
        url: of the export.
        tasks: its objects.
        person: the one who answered, where an annotation names nobody.
        choices: of the answer.

    Raises:
        InputError: an answer is none of the choices, or a task has no key, or no person.
    """
    rows = list[TimedRow]()
    for number, task in enumerate(tasks, 1):
        place = f"{url}: task {task.get('id', number)}"
        for key, annotation, words, note in _annotations(task):
            if not words:
                continue
            if not isinstance(key, str) or not key:
                raise InputError(f"{place}: has no key; was it written by --label-studio?")
            if len(words) > 1:
                raise InputError(f"{place}: has {len(words)} choices in one annotation, not one")
            choice = find_choice(place, str(words[0]), choices)
            annotator = annotation.get("completed_by", annotation.get("annotator"))
            at = str(annotation.get("updated_at") or annotation.get("created_at") or "")
            row = Row(place, name_person(place, annotator, person), key, choice.value, note)
            rows.append(TimedRow(at, row))
    return keep_latest(rows)


def _annotations(task: Exported) -> Iterator[tuple[object, Exported, list[Any], str]]:
    """Yield the key, an annotation, its choices and its note, for each annotation of a task."""
    annotations = task.get("annotations")
    if not isinstance(annotations, list):  # JSON-MIN
        yield task.get("key"), task, _choices(task.get(ANSWER)), join_texts(task.get(NOTE))
        return
    data = task.get("data")
    key = data.get("key") if isinstance(data, dict) else None
    for annotation in annotations:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result") or []
        values: dict[str, list[Any]] = {ANSWER: [], NOTE: []}
        for result in (row for row in results if isinstance(row, dict)):
            values.setdefault(str(result.get("from_name")), []).append(result.get("value"))
        words = [word for value in values[ANSWER] for word in _choices(value)]
        yield key, annotation, words, join_texts(values[NOTE])


def _choices(value: object) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("choices")
    if isinstance(value, list):
        return [word for part in value for word in _choices(part)]
    return [] if value in (None, "") else [value]


def _quoted(text: str) -> str:
    # A dollar sign would be taken for the name of a field of the task.
    return quoteattr(_NOT_XML.sub("", text).replace("$", "\uff04"))


LABEL_STUDIO = LabelTool("Label Studio", write_tasks, is_task, read_tasks)
