"""W3C trace contexts in the headers of records: which of them count, and how they are set.

One rule says which count. A record carries a context if it has exactly one header ``traceparent``,
which is 55 bytes of version 00 with identifiers that are not zero. Its ``tracestate`` counts if it
is one header, too, a list as W3C has it without spaces, of 512 bytes and 32 members at most. All
else is as if the record did not have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamlet.kafka.ports import Headers
from streamlet.state.headed_rows import TRACES

TRACEPARENT, TRACESTATE = TRACES
#: What W3C asks for at least of those that pass a ``tracestate`` on, bytes.
MOST_STATE = 512

_KEY = r"(?:[a-z][-_*/0-9a-z]{0,255}|[a-z0-9][-_*/0-9a-z]{0,240}@[a-z][-_*/0-9a-z]{0,13})"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_STATE = re.compile(f"{_KEY}={_VALUE}(?:,{_KEY}={_VALUE}){{0,31}}".encode())
_FORM = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class CarriedContext(NamedTuple):
    """The trace context of a record, as its headers have it."""

    parent: bytes
    state: bytes = b""

    @property
    def sampled(self) -> bool:
        """True if its trace is recorded."""
        return bool(int(self.parent[-2:], 16) & 1)

    @property
    def ids(self) -> tuple[int, int, int]:
        """The identifiers of the trace and of the span in it, and the flags."""
        found = _FORM.fullmatch(self.parent)
        assert found is not None
        trace, span, flags = found.groups()
        return int(trace, 16), int(span, 16), int(flags, 16)

    @property
    def headers(self) -> Headers:
        """The headers that carry it."""
        parent = (TRACEPARENT, self.parent)
        return (parent, (TRACESTATE, self.state)) if self.state else (parent,)


def carried(headers: Headers | None) -> CarriedContext | None:
    """The context that a record carries; None: it carries none that counts."""
    parents, states = [], []
    for name, value in headers or ():
        if name == TRACEPARENT:
            parents.append(value)
        elif name == TRACESTATE:
            states.append(value)
    if len(parents) != 1 or parents[0] is None or _FORM.fullmatch(parents[0]) is None:
        return None
    state = states[0] if len(states) == 1 else None
    return CarriedContext(parents[0], state if state is not None and _is_state(state) else b"")


def _is_state(state: bytes) -> bool:
    if len(state) > MOST_STATE or _STATE.fullmatch(state) is None:
        return False
    keys = [member.partition(b"=")[0] for member in state.split(b",")]
    return len(set(keys)) == len(keys)


def with_context(headers: Headers | None, context: Headers) -> Headers:
    """Headers with this trace context in place of their own.

    Without other headers it is ``context`` itself, which many records may share.
    """
    if not headers:
        return context
    others = [one for one in headers if one[0] not in (TRACEPARENT, TRACESTATE)]
    return [*others, *context] if others else context


def with_missing(
    headers: Sequence[Headers | None],
    found: Iterable[CarriedContext | None],
    context: Headers,
) -> list[Headers | None]:
    """The headers of records, in which those of which no context was found carry this one."""
    return [
        with_context(given, context) if one is None else given
        for given, one in zip(headers, found, strict=True)
    ]
