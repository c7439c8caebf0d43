"""Steps of a scenario as lines for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import Event, Step


def step_texts(step: Step) -> list[str]:
    """The events of a step and what follows them, a line each, with the keys of the file."""
    texts = [_event_text(event) for event in step.events]
    if step.advance_ms:
        texts.append(f"advance_ms {step.advance_ms}")
    if step.settle_rounds is not None:
        texts.append(f"settle within {step.settle_rounds} rounds")
    return texts


def _event_text(event: Event) -> str:
    match event:
        case ev.Deploy(field, values):
            return f"{field} {_words(values)}"
        case ev.Lose(sender, request, nth, answer):
            which = "the answer to " if answer else ""
            return f"lose {which}{request} {nth} from {sender}"
        case ev.AddTasks(specs):
            return f"add_tasks {', '.join(spec.label for spec in specs)}"
        case _:
            return " ".join((_key(event), *_values(event)))


def _key(event: Event) -> str:
    """The key of an event in a file."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()


def _values(event: Event) -> Iterator[str]:
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if field.name != "timeout_ms":
            yield _words(value)
        elif value is not None:
            yield f"within {value} ms"


def _words(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name}: {_words(one)}" for name, one in value.items())
        case tuple():
            return ", ".join(map(_words, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)
