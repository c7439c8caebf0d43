"""The parts of an application that there are once: its arguments and its topology."""

from __future__ import annotations

from inspect import signature
from typing import NoReturn, Protocol

from streamlet.errors import TopologyError, WrongTypeError


class _OfApp(Protocol):
    application: str


class OneApp:
    """The part of ``App`` that refuses what would have no effect: later changes, and copies."""

    name: str
    _made: bool = False

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse what is given when an App is made; a class below may have others for itself."""
        plain = type(self).__bases__[0] is OneApp
        if self._made and (name == "name" or (plain and name in signature(type(self)).parameters)):
            raise WrongTypeError(
                f"{name}= of an App is given when it is made, as in App('name', config={{…}}), and "
                "does not change"
            )
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise no_copy(self.name)


def no_copy(application: str) -> WrongTypeError:
    """The error of an application that is pickled or copied, or something that it has made."""
    return WrongTypeError(
        f"App {application!r}, its streams and tables cannot be pickled or copied: a process "
        "imports the module that makes the App, as `streamlet run MODULE:APP` does; a function "
        "that makes it gives another one"
    )


def same_app(call: str, one: _OfApp, other: _OfApp) -> None:
    """Refuse streams or tables of two applications.

    Raises:
        TopologyError: they do not belong to the same one.
    """
    if one is other:
        return
    mine, theirs = one.application, other.application
    if mine == theirs:
        raise TopologyError(
            f"{call}: the two belong to two Apps named {mine!r}; make both by one App (in a "
            "notebook: run the cells again that used the one before)"
        )
    raise TopologyError(
        f"{call}: the two belong to different applications, {mine!r} and {theirs!r}"
    )
