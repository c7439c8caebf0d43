"""The type and serde of a stream's keys or values, or the call after which they are unknown."""

from __future__ import annotations

from typing import Any, Final

import attrs

from streamlet.dsl.graph.inference import UNKNOWN
from streamlet.errors import SerdeError, TopologyError
from streamlet.serdes import Serde
from streamlet.serdes import serde as serde_of
from streamlet.serdes.json_types import plain_type
from streamlet.serdes.serde import alike

#: Stands for a type that is not given, where None is one: "always null".
DEFAULT: Final[Any] = type("Default", (), {"__repr__": lambda self: "DEFAULT"})()

#: The one call that loses a type though it has no function.
_MERGE = "merge()"


@attrs.frozen(eq=False)
class Kind:
    """The type and serde of keys or values; ``lost`` is the call after which they are unknown."""

    serde: Serde[Any] | None
    of: Any = UNKNOWN
    lost: str = ""

    @classmethod
    def given(cls, of: Any, call: str, role: str) -> Kind:
        """The kind that a user gave as ``key=`` or ``value=``.

        Raises:
            TopologyError: there is no serde for it.
        """
        try:
            return cls(_serde(of, role), plain_type(of))
        except SerdeError as error:
            raise TopologyError(f"{call}, {role}=: {error}") from error

    @classmethod
    def default(cls, of: Any, role: str) -> Kind | None:
        """The kind that an application is given for all ``role``s without a type; None for none.

        Raises:
            TopologyError: there is no serde for it.
        """
        return None if of is None else cls.given(of, "App()", role)

    @classmethod
    def of_result(cls, given: Any, inferred: Any, call: str, role: str) -> Kind:
        """The given kind, else the inferred one, else one that is unknown because of this call."""
        if given is not None:
            return cls.given(given, call, role)
        if inferred is UNKNOWN:
            return cls(None, UNKNOWN, call)
        try:
            return cls(_serde(inferred, role), plain_type(inferred))
        except SerdeError as error:
            # Perhaps not needed, so no error yet; types of attributes can still be inferred.
            return cls(None, inferred, f"{call} ({error})")

    @classmethod
    def merged(cls, one: Kind, other: Kind, role: str) -> Kind:
        """The kind of a stream that carries the keys or the values (``role``) of two streams."""
        if one.serde is None or other.serde is None:
            return other if one.serde is not None else one
        if alike(one.serde, other.serde):
            return one
        names = f"{one.serde.name} and {other.serde.name}"
        return cls(None, lost=f"{_MERGE} (the {role}s of its streams are {names})")

    @property
    def shown(self) -> str:
        """The type as messages and notebooks show it."""
        if self.serde is not None:
            return self.serde.name
        return getattr(self.of, "__name__", "?") if self.of is not UNKNOWN else "?"

    def or_default(self, default: Kind | None) -> Kind:
        """The kind, written as the application's default where the type is not known."""
        if self.serde is not None or default is None:
            return self
        return attrs.evolve(self, serde=default.serde)

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
                f"pass {role}= to {where} (for example {role}=str), {advice}, "
                f"or give App({role}=...) as the default"
            )
        return self.serde


def _serde(of: Any, role: str) -> Serde[Any]:
    """The serde of a type in its role; only keys need one form, whatever the order in dicts."""
    serde = serde_of(of)
    return serde if role == "key" or serde.as_value is None else serde.as_value
