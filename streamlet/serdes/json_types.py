"""The types that JSON can carry whole, and the refusal of all others, by name with the way out."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Final,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.json_decoders import class_of, decoder_of
from streamlet.user_code import package_of, shown, text_of

_CLASSES = "a dataclass, an attrs class or a msgspec.Struct"
_WHOLE = "or a pair (encode, decode) for the whole"
#: Containers of Python that JSON has no form for -> what to use instead.
_INSTEAD: dict[str, str] = {
    "deque": "list",
    "OrderedDict": "dict",
    "defaultdict": "dict",
    "Counter": "dict[…, int]",
    "ChainMap": "dict",
    "mappingproxy": "dict",
    "array": "list",
    "ndarray": "list",
    "Fraction": "Decimal",
    "Path": "str",
    "IPv4Address": "str",
    "IPv6Address": "str",
    "float16": "float",
    "float32": "float",
    "float64": "float",
    "longdouble": "float",
    "bool_": "bool",
    "str_": "str",
    "datetime64": "datetime",
    "timedelta64": "timedelta",
    **{f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_SIMPLE = (
    kinds.IntType,
    kinds.FloatType,
    kinds.StrType,
    kinds.BytesType,
    kinds.DateTimeType,
    kinds.DateType,
    kinds.TimeType,
    kinds.TimeDeltaType,
    kinds.UUIDType,
    kinds.DecimalType,
    kinds.EnumType,
    kinds.LiteralType,
)
_FROZEN_KINDS = (kinds.NoneType, kinds.BoolType, *_SIMPLE)
#: Types whose values can be names of a JSON object.
_NAMES = (kinds.AnyType, *_SIMPLE)
#: The packages of these classes; a user's class may have the same name.
_PACKAGES = frozenset(
    {"array", "builtins", "collections", "fractions", "ipaddress", "numpy", "pathlib", "types"}
)
#: What msgspec says of ``InitVar``; the class is not in it.
_INIT_VARS = "dataclasses with `InitVar` fields are not supported"
_TAGGED = f"use structs of msgspec with tag=True, by which JSON tells them apart, {_WHOLE}"
#: How msgspec begins to say why it refuses a type, and the way out.
_WAYS_OUT: dict[str, str] = {
    "Enums must contain": f"give it values of one of the two, {_WHOLE}",
    "Type unions containing a custom": f"of models make a RootModel of it, or {_TAGGED}",
    "Type unions may not contain more than one custom": f"make a RootModel of it, or {_TAGGED}",
    "Type unions may not contain more than one str-like": f"use str, and convert it, {_WHOLE}",
    "Type unions": _TAGGED,
    "Literal may only contain": f"use the type of its values, {_WHOLE}",
}
#: What ``msgspec.Meta`` may demand of a value beside its type.
_DEMANDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")


#: Packages whose notes in an ``Annotated`` demand something, and those notes that demand nothing.
_DEMANDING = frozenset({"annotated_types", "pydantic"})
_DEMANDLESS = frozenset({"DocInfo", "Strict", "Unit"})


def plain_type(of: Any) -> Any:
    """A type without the names and notes that do not change its values.

    ``NewType``, ``Final``, a ``type`` alias and ``Annotated`` give what they stand for; an
    ``Annotated`` with demands of ``msgspec.Meta`` stays.
    """
    while True:
        if isinstance(of, NewType):
            of = of.__supertype__
        elif type(of).__name__ == "TypeAliasType":
            of = of.__value__
        elif get_origin(of) is Final:
            (of,) = get_args(of)
        elif get_origin(of) is Annotated and not _demands(of):
            of = get_args(of)[0]
        else:
            return of


def _demands(of: Any) -> bool:
    metas = [note for note in of.__metadata__ if isinstance(note, msgspec.Meta)]
    return any(getattr(meta, name) is not None for meta in metas for name in _DEMANDS)


def bare_type(of: Any) -> Any:
    """The type without demands of ``msgspec.Meta``."""
    of = plain_type(of)
    return bare_type(get_args(of)[0]) if get_origin(of) is Annotated else of


def describe(of: Any) -> kinds.Type:
    """The description of a type by msgspec, after making sure that JSON can carry all of it.

    Raises:
        SerdeError: it cannot; the message names the class in the way.
    """
    try:
        described = kinds.type_info(of)
        found = parts(described)
        decoder_of(of, found)
    except (TypeError, NameError, ValueError, RuntimeError, KeyError) as error:
        raise SerdeError(f"no JSON for {type_name(of)}: {_reason(error)}") from error
    refuse_unheeded(of)
    for part in found:
        reason = _refusal(part)
        if reason is not None:
            raise SerdeError(f"no JSON for {type_name(of)}: {reason}")
    return described


def refuse_unheeded(of: Any) -> None:
    """Refuse a type with demands of pydantic's outside of its classes, where nothing asks for them.

    Raises:
        SerdeError: it has such a demand.
    """
    for note in _notes(of):
        if _is_unheeded(note):
            raise SerdeError(
                f"no serde for {type_name(of)}: {shown(note)} in an Annotated is not checked "
                "outside of pydantic's classes; use msgspec.Meta, or make the class pydantic's"
            )


def _is_unheeded(note: Any) -> bool:
    kind = type(note)
    if package_of(kind) not in _DEMANDING or kind.__name__ in _DEMANDLESS:
        return False
    if kind.__module__ == "pydantic.json_schema":
        return False
    return bool(note.metadata) if kind.__name__ == "FieldInfo" else True


def _notes(of: Any) -> Iterator[Any]:
    """The notes of each ``Annotated`` in a type, and in the fields of classes in it."""
    todo, met = [of], dict[int, Any]()
    while todo:
        kind = todo.pop()
        if id(kind) in met:
            continue
        met[id(kind)] = kind
        todo.append(getattr(kind, "__supertype__", getattr(kind, "__value__", None)))
        todo.extend(get_args(kind))
        if get_origin(kind) is Annotated:
            yield from kind.__metadata__
        cls = get_origin(kind) or kind
        if isinstance(cls, type) and not hasattr(cls, "__pydantic_validator__"):
            todo.extend(_hints(cls).values())


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class; none where Python cannot say them."""
    try:
        return get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _reason(error: Exception) -> str:
    """The reason why msgspec refuses a type, and the way out where it has none."""
    if isinstance(error, KeyError):  # msgspec 0.22 looks for the annotation of each attribute
        return _no_annotation(error.args[0])
    if isinstance(error, NotImplementedError):
        return (
            "the default of an attribute is made of the instance (takes_self=True): set it in "
            f"__attrs_post_init__, {_WHOLE}"
        )
    text = str(error)  # the name of a class in it may have any words
    if text == _INIT_VARS:
        return f"{text}; make it a field, or give a pair (encode, decode)"
    way_out = next((way for begin, way in _WAYS_OUT.items() if text.startswith(begin)), None)
    return text if way_out is None else f"{text}; {way_out}"


def _no_annotation(attribute: str) -> str:
    return f"its attribute {attribute!r} has no annotation: give it one"


def _refusal(part: kinds.Type) -> str | None:
    """The reason why JSON cannot carry a part of a type whole, and the way out; None: it can."""
    if hasattr(class_of(part), "__pydantic_validator__"):
        return (
            f"{type_name(class_of(part))} is pydantic's, whose checks hold only in JSON of which "
            f"the whole is a class of pydantic; use {_CLASSES} in its place, {_WHOLE}"
        )
    if isinstance(part, kinds.CustomType | kinds.ExtType):
        of: Any = getattr(part, "cls", "Ext")
        cls = get_origin(of) or of
        known = package_of(cls) in _PACKAGES
        instead = _INSTEAD.get(cls.__name__, _CLASSES) if known else _CLASSES
        return f"cannot carry {type_name(of)}; use {instead} in its place, {_WHOLE}"
    if isinstance(part, kinds.DictType) and not isinstance(bare_kind(part.key_type), _NAMES):
        return (
            "names of a JSON object are of one type that is text or a number, not "
            f"{_kind_name(part.key_type)}; use a list of pairs in place of the dict, {_WHOLE}"
        )
    if isinstance(part, kinds.DataclassType):
        reason = _of_attrs(class_of(part))
        if reason is not None:
            return reason
    for field in getattr(part, "fields", ()):
        if type(field.default).__name__ == "FieldInfo":
            return (
                f"the default of {type_name(class_of(part))}.{field.name} is a Field of pydantic, "
                f"which means nothing here: make {type_name(class_of(part))} a class of pydantic"
            )
        if type(field.encode_name) is not str:  # msgspec takes it, and crashes when it reads one
            return (
                f"{field.encode_name!r} of {type_name(class_of(part))} is no text: name it by one"
            )
        if field.default is None and not takes_none(field.type):
            name = f"{type_name(class_of(part))}.{field.name}"
            kind = _kind_name(field.type)
            return f"{name} is {kind} and its default is None: annotate it as {kind} | None"
    return None


def _of_attrs(cls: Any) -> str | None:
    """The reason why msgspec loses, or adds, attributes of a class made by attrs."""
    attributes = vars(cls).get("__attrs_attrs__")
    if attributes is None or hasattr(cls, "__dataclass_fields__"):
        return None
    bare = [one.name for one in attributes if one.type is None]
    if bare:
        return _no_annotation(bare[0])
    names = [one.name for one in attributes]
    private = [name for name in names if name.startswith("_")]
    if private:
        return (
            f"private attributes of attrs classes are not written, and {type_name(cls)} has "
            f"{private[0]}: call it {private[0].lstrip('_')}, make {type_name(cls)} a dataclass, "
            f"{_WHOLE}"
        )
    kept = sorted(set(_kept_beside(cls)) - {*names, "__weakref__", "__dict__"})
    if kept:
        return (
            f"{type_name(cls)}.{kept[0]} is kept beside the attributes of an attrs class, and "
            f"would be written with them: make it a property, or {type_name(cls)} a dataclass"
        )
    return None


def _kept_beside(cls: type) -> Iterator[str]:
    """Names under which instances keep something that is no field: slots, cached properties."""
    for one in cls.__mro__:
        slots = vars(one).get("__slots__", ())
        yield from (name for name in _names(slots) if not name.startswith("_"))
        for name, value in vars(one).items():
            if isinstance(value, functools.cached_property):
                yield name


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def bare_kind(kind: kinds.Type) -> kinds.Type:
    """A described type without notes of ``msgspec.Meta`` that do not concern its values."""
    while isinstance(kind, kinds.Metadata):
        kind = kind.type
    return kind


def is_simple(kind: kinds.Type) -> bool:
    """True for text, numbers, times and the like, which have no parts."""
    return isinstance(bare_kind(kind), (*_SIMPLE, kinds.BoolType))


def _kind_name(kind: kinds.Type) -> str:
    kind = bare_kind(kind)
    cls = class_of(kind)
    if cls is not None:
        return type_name(cls)
    if isinstance(kind, kinds.UnionType):
        return " | ".join(map(_kind_name, kind.types))
    return type(kind).__name__.removesuffix("Type").lower()


def takes_none(kind: kinds.Type) -> bool:
    """True if None is one of a type's values."""
    kind = bare_kind(kind)
    if isinstance(kind, kinds.UnionType):
        return any(map(takes_none, kind.types))
    if isinstance(kind, kinds.LiteralType):
        return None in kind.values
    unknown = (kinds.AnyType, kinds.RawType, kinds.CustomType, kinds.ExtType)
    return isinstance(kind, (kinds.NoneType, *unknown))


def has_demands(found: list[kinds.Type]) -> bool:
    """True if values of the right type may still be refused when they are read."""
    return any(getattr(part, name, None) is not None for part in found for name in _DEMANDS)


def parts(described: kinds.Type) -> list[kinds.Type]:
    """A described type and all types inside, each once, though types may contain themselves."""
    met: dict[int, kinds.Type] = {}
    todo = [described]
    while todo:
        part = todo.pop()
        if id(part) not in met:
            met[id(part)] = part
            todo.extend(_children(part))
    return list(met.values())


def _children(part: kinds.Type) -> list[kinds.Type]:
    found: list[kinds.Type] = []
    for field in getattr(part, "fields", ()):
        found.append(field.type)
    for attribute in ("item_type", "key_type", "value_type", "type"):
        inner = getattr(part, attribute, None)
        if isinstance(inner, kinds.Type):
            found.append(inner)
    for attribute in ("item_types", "types"):
        found.extend(getattr(part, attribute, ()))
    return found


def is_immutable(described: kinds.Type) -> bool:
    """True if no value of the type can change in place, at any depth."""
    return all(_is_frozen(part) for part in parts(described))


def _is_frozen(part: kinds.Type) -> bool:
    if isinstance(part, kinds.StructType):
        return bool(class_of(part).__struct_config__.frozen)
    if isinstance(part, kinds.DataclassType):
        # attrs before 25.4 has no such property; its classes then count as mutable, which only
        # costs a copy.
        own: Any = vars(class_of(part))
        frozen = own.get("__dataclass_params__") or own.get("__attrs_props__")
        return bool(getattr(frozen, "frozen", getattr(frozen, "is_frozen", False)))
    shells = (kinds.VarTupleType, kinds.TupleType, kinds.FrozenSetType, kinds.UnionType)
    around = (kinds.NamedTupleType, kinds.Metadata)
    return isinstance(part, (*_FROZEN_KINDS, *shells, *around))


def accepted_types(of: Any) -> frozenset[type]:
    """The exact types of values that may be written as ``of``; empty if they are not known.

    A subclass is not accepted: it would come back as its base.
    """
    of = bare_type(of)
    origin = get_origin(of) or of
    if origin in (Union, types.UnionType):
        members = [accepted_types(member) for member in get_args(of)]
        return frozenset().union(*members) if all(members) else frozenset()
    if is_typeddict(origin):
        return frozenset({dict})
    if origin in (Any, object) or not isinstance(origin, type) or inspect.isabstract(origin):
        return frozenset()
    if origin.__module__ == collections.abc.__name__:
        return frozenset()
    return frozenset({float, int}) if origin is float else frozenset({origin})


def type_name(of: Any) -> str:
    """A type as one writes it."""
    if isinstance(of, type) and get_origin(of) is None:
        return of.__name__
    return text_of(of).replace("typing.", "")
