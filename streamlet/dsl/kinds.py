"""What is known of a stream's keys or values: type and serde, or which call lost sight of it."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.dsl.inference import UNKNOWN
from streamlet.errors import SerdeError, TopologyError
from streamlet.serdes import Serde
from streamlet.serdes import serde as serde_of

#: The one call that loses a type though it has no function.
_MERGE = "merge()"


@attrs.frozen(eq=False)
class Kind:
    """Keys or values of one stream. ``lost`` says after which call nothing is known of them."""

    serde: Serde[Any] | None
    of: Any = UNKNOWN
    lost: str = ""

    @classmethod
    def given(cls, of: Any, call: str, role: str) -> Kind:
        """What a user gave as ``key=`` or ``value=``.

        Raises:
            TopologyError: there is no serde for it.
        """
        try:
            return cls(serde_of(of), of)
        except SerdeError as error:
            raise TopologyError(f"{call}, {role}=: {error}") from error

    @classmethod
    def told(cls, given: Any, inferred: Any, call: str, role: str) -> Kind:
        """What was given if something was, else what was inferred, else unknown since this call."""
        if given is not None:
            return cls.given(given, call, role)
        if inferred is UNKNOWN:
            return cls(None, UNKNOWN, call)
        try:
            return cls(serde_of(inferred), inferred)
        except SerdeError as error:
            # Not needed perhaps, so no error yet; attributes of it can still be told.
            return cls(None, inferred, f"{call} ({error})")

    @classmethod
    def merged(cls, one: Kind, other: Kind, roles: str) -> Kind:
        """The kind of a stream that carries the ``roles`` (keys or values) of two streams."""
        if one.serde is None or other.serde is None:
            return other if one.serde is not None else one
        if one.serde is other.serde or one.serde.name == other.serde.name:
            return one
        names = f"{one.serde.name} and {other.serde.name}"
        return cls(None, lost=f"{_MERGE} (the {roles} of its streams are {names})")

    def needed(self, call: str, role: str, *, takes: bool = True) -> Serde[Any]:
        """The serde, for a call that writes bytes; ``takes`` if the call has such an argument.

        Raises:
            TopologyError: it is not known; the message says what to pass.
        """
        if self.serde is None:
            changed = self.lost.partition(" (")[0]
            merged = changed == _MERGE
            places = [call] * takes + [changed] * (not merged)
            where = " or to ".join(places or ["a repartition() before it"])
            advice = (
                "make the streams alike before" if merged else "annotate what the function returns"
            )
            raise TopologyError(
                f"{call} writes {role}s, but their type is not known after {self.lost}: "
                f"pass {role}= to {where} (for example {role}=str), or {advice}"
            )
        return self.serde
