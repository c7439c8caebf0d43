"""Answers of streamlet's objects to names and operators that they do not have: what to do instead.

``explains_misuse`` is put around each class whose objects users meet. Its ``__getattr__`` is
``no_operator``, and Python's own operators that the class lacks, ``[]`` and ``len()`` among them,
are answered, too. ``explained_in_errors`` is for values that functions read once a record, which a
``__getattr__`` would make four times slower: only the operators and the names of the tables are
answered by the value itself, and ``hint`` puts the answer about any other name behind the error of
a user's function. A named tuple keeps a tuple's operators. The answers are those of
``absent_names`` and ``absent_classes``. Type checkers do not see any of it, so they still refuse
these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from streamlet.absent_classes import ABSENT_HERE
from streamlet.absent_names import (
    ABSENT,
    COMES_FROM,
    ELSE,
    FIRST,
    HABITS,
    NO_LEN,
    NO_PARTS,
    OPERATORS,
)
from streamlet.errors import WrongTypeError
from streamlet.user_code import listed

T = TypeVar("T")

#: The classes that explain themselves, by their names.
_CLASSES: dict[str, type] = {}
#: Python's operators, and what a message calls them.
_ITEMS = ("__getitem__", "__setitem__", "__delitem__")
_SIGNS = {
    **dict.fromkeys(_ITEMS, "items"),
    "__len__": "len()",
    **{"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="},
    **{"__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//"},
    **{"__mod__": "%", "__pow__": "**", "__matmul__": "@", "__lshift__": "<<", "__rshift__": ">>"},
    **{"__and__": "&", "__or__": "|", "__xor__": "^", "__invert__": "~", "__neg__": "-"},
    **{"__abs__": "abs()", "__round__": "round()"},
    **{"__radd__": "+", "__rsub__": "-", "__rmul__": "*", "__rtruediv__": "/"},
    **{"__rfloordiv__": "//", "__rmod__": "%", "__rpow__": "**", "__rand__": "&", "__ror__": "|"},
}


def explains_misuse(of: type[T]) -> type[T]:
    """The class, whose objects say what to do instead of what they cannot do."""
    if not hasattr(of, "__getattr__"):
        _set(of, "__getattr__", no_operator)
    return _with_operators(of)


def explained_in_errors(of: type[T]) -> type[T]:
    """The class, of whose objects ``hint`` says what they do not have."""
    habits = {**_of(of, HABITS), **_of(of, ABSENT)}
    for name in {*habits, *map(_camel_case, (*habits, *_public(of)))}:
        if not hasattr(of, name):
            setattr(of, name, _AbsentName(name))
    _set(of, "__dir__", lambda owner: [*_without_absent(type(owner), object.__dir__(owner))])
    return _with_operators(of)


class _AbsentName:
    """A name that a class does not have, whose look-up fails by a sentence.

    It costs nothing at other names. ``hasattr`` and ``dir`` of an object do not see it, and an
    attribute of the same name goes before it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: object, kind: type) -> object:
        said = f"type object {kind.__name__!r} has no attribute {self._name!r}"
        if owner is not None:
            said = instead(kind, self._name) or said
        raise AttributeError(said, name=self._name, obj=None)


def _without_absent(kind: type, names: Iterable[str]) -> Iterator[str]:
    """The names but those that only have an answer."""
    bodies = [vars(one) for one in reversed(kind.__mro__)]
    there = {name: value for body in bodies for name, value in body.items()}
    return (name for name in names if not isinstance(there.get(name), _AbsentName))


def _with_operators(of: type[T]) -> type[T]:
    _CLASSES[of.__name__] = of
    if issubclass(of, tuple):
        return of
    if not hasattr(of, "__len__") and not hasattr(of, "__bool__"):
        _set(of, "__bool__", lambda _: True)  # which Python would else take of len()
    for name, sign in _SIGNS.items():
        if getattr(of, name, None) is getattr(object, name, None) and not _is_iterated(of, name):
            _set(of, name, _refusal(name, sign))
    return of


def is_explained(of: type) -> bool:
    """True for a class that one of these two is put around, or that is below such a class."""
    return any(one is _CLASSES.get(one.__name__) for one in of.__mro__)


def _set(of: type, name: str, answer: Callable[..., object]) -> None:
    setattr(of, name, answer)


def _is_iterated(of: type, name: str) -> bool:
    """True for the brackets of what a loop goes through: without them it stays no sequence."""
    return name in _ITEMS and hasattr(of, "__iter__")


def _refusal(name: str, sign: str) -> Callable[..., object]:
    def refuse(owner: object, *_: object) -> object:
        kind = type(owner)
        ours, has_no = _ours(kind), "has no items" if sign == "items" else f"has no {sign}"
        sentence = _first_of(kind, NO_LEN) if name == "__len__" else None
        sentence = sentence or _first_of(kind, {**FIRST, **NO_PARTS}) or _names_of(kind)
        raise WrongTypeError(f"{ours} {has_no}: {sentence}")

    return refuse


def no_operator(owner: object, name: str) -> object:
    """The ``__getattr__`` of a class that explains itself: names what to do instead.

    Raises:
        AttributeError: always.
    """
    kind = type(owner)
    sentence = instead(kind, name)
    if sentence is None and "App" in _names(kind) and "_builder" not in vars(owner):
        sentence = (
            f"{kind.__name__} is not made yet: its __init__() has to call super().__init__(name)"
        )
    if sentence is None:
        # Python's own error, or once more that of a property that failed with an AttributeError.
        return object.__getattribute__(owner, name)
    # With the owner in it, Python would add the name most similar to this one, which misleads.
    raise AttributeError(sentence, name=name, obj=None)


def elsewhere(name: str) -> str | None:
    """The message for a name that the package does not have; None where there is none."""
    sentence = ABSENT_HERE.get(name)
    return None if sentence is None else f"streamlet has no {name}: {sentence}"


def hint(error: BaseException) -> str | None:
    """The message for an AttributeError about one of streamlet's objects; None for any other."""
    if not issubclass(type(error), AttributeError):  # others may raise what they like when asked
        return None
    kind, name = type(_owner_of(error)), _name_of(error)
    known = kind in _CLASSES.values() and isinstance(name, str)
    return instead(kind, name) if known else None


#: Attributes of an exception as Python keeps them, whatever its class makes of looking them up.
_owner_of: Any = vars(AttributeError)["obj"].__get__
_name_of: Any = vars(AttributeError)["name"].__get__


def instead(kind: type, name: str) -> str | None:
    """The message for a name that a class does not have; None where it is Python's to answer."""
    if name.startswith("_") or hasattr(kind, name):
        return None
    sentence = _known(kind, name)
    if sentence is None and not kind.__module__.startswith("streamlet."):
        return None  # a class of the user's below ours, which may have names of its own
    return f"{_ours(kind)} has no {name}: {sentence or _other(kind, name)}"


def _known(kind: type, name: str) -> str | None:
    """The sentence of a table for a name; or the name itself, written as it is here."""
    snake, absent = snake_case(name), _of(kind, ABSENT)
    same = {_squeezed(one): one for one in _public(kind)}.get(_squeezed(name))
    if same is not None and name not in absent:
        return f"its name is {same}"
    found = {**_of(kind, HABITS), **absent}
    sentence = found.get(name, found.get(snake))
    if sentence is None and snake in OPERATORS:
        sentence = _first_of(kind, FIRST)
    return sentence


def _other(kind: type, name: str) -> str:
    """The sentence for a name that no table has."""
    snake, there = snake_case(name), _public(kind)
    if _first_of(kind, COMES_FROM) is not None:
        for other, made in COMES_FROM.items():
            found = getattr(_CLASSES.get(other), snake, None)
            if found is not None and (callable(found) or other != "App"):
                return f"{other} has it, {made}"
    close = get_close_matches(snake, there, n=1, cutoff=0.8)
    if close:
        return f"did you mean {close[0]}?"
    return _first_of(kind, ELSE) or _names_of(kind)


def _names_of(kind: type) -> str:
    return f"it has {listed(_public(kind))}"


def _public(kind: type) -> list[str]:
    beside = dir(tuple) if issubclass(kind, tuple) else ()  # of a named one its fields count
    there = _without_absent(kind, dir(kind))
    return [name for name in there if not name.startswith("_") and name not in beside]


def _names(kind: type) -> list[str]:
    """The names of streamlet's classes that a class is or is below; a user's may be any."""
    return [one.__name__ for one in kind.__mro__ if one.__module__.startswith("streamlet.")]


def _ours(kind: type) -> str:
    """The class that is documented, of those that a class is or is below."""
    known = {**ABSENT, **HABITS, **FIRST, **NO_PARTS}
    found = (name for name in _names(kind) if name in known or name in _CLASSES)
    return next(found, kind.__name__)


def _first_of(kind: type, table: Mapping[str, str]) -> str | None:
    return next((table[name] for name in _names(kind) if name in table), None)


def _of(kind: type, table: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """The entries of a table for a class and for those that it is below; the nearest one counts."""
    found: dict[str, str] = {}
    for name in reversed(_names(kind)):
        found |= table.get(name, {})
    return found


def snake_case(name: str) -> str:
    """A camelCase name as Python writes it: ``groupByKey`` is ``group_by_key``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()
