"""Shows the constructors of attrs classes, which griffe reads as plain classes."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Extension, Function, Parameter, ParameterKind, Parameters

_DECORATORS = ("attrs.frozen", "attrs.define")


class AttrsClasses(Extension):
    """Gives each attrs class without an ``__init__`` one that takes its fields."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Add ``__init__`` to an attrs class."""
        decorators = [decorator.callable_path for decorator in cls.decorators]
        if "__init__" in cls.members or not any(one in _DECORATORS for one in decorators):
            return
        kind = ParameterKind.positional_or_keyword
        parameters = (
            Parameter(one.name, annotation=one.annotation, kind=kind, default=_default(one))
            for one in cls.members.values()
            if isinstance(one, Attribute) and one.annotation and "property" not in one.labels
        )
        init = Function(
            "__init__", parameters=Parameters(Parameter("self", kind=kind), *parameters)
        )
        cls.set_member("__init__", init)


def _default(field: Attribute) -> str | None:
    """The default as written, and ``...`` for one that ``attrs.field`` makes."""
    text = None if field.value is None else str(field.value)
    if text is None or not text.startswith("attrs.field("):
        return text
    return "..." if "factory=" in text or "default=" in text else None
