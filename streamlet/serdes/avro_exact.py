"""Refuses values that an Avro schema does not have, but that fastavro would write as others.

It writes 1.5 and True as the ``long`` 1, "no" as the ``boolean`` true, and a set as an array. Looks
are by columns, a type at a time, at any depth: of one field of all records of a column, and so on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from numbers import Integral, Number
from operator import itemgetter
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

from streamlet.user_code import shown

#: Raises ``UnlikeSchemaError`` if one of a column's values is not of its type.
Look: TypeAlias = Callable[[list[Any]], None]

#: Python's types of dates and times.
_TIMES = (date, datetime, time)
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class UnlikeSchemaError(ValueError):
    """A value that is not of its type, with the names of the fields that lead to it."""

    def __init__(self, expected: str, value: Any, where: str = "") -> None:
        at = f"{where}: " if where else ""
        super().__init__(f"{at}expected {expected}, got {type(value).__name__} {shown(value)}")
        self._expected, self._value, self._where = expected, value, where

    def within(self, name: str) -> UnlikeSchemaError:
        """The error of a value that has such a one in a field of this name."""
        where = f"{name}.{self._where}" if self._where else name
        return UnlikeSchemaError(self._expected, self._value, where)


def look_at(schema: Any, named: Mapping[str, Any]) -> Look | None:
    """The look for values of a parsed schema, with its named types; None: there is nothing to see.

    What fastavro refuses by itself is left to it.
    """
    return _Looks(named).of(schema)


class _Looks:
    """The looks of one schema; those of named types are made once, since they may be recursive."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named, self._made = named, dict[str, Look | None]()

    def of(self, schema: Any) -> Look | None:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._of_name(schema)
        sort, logical = schema["type"], schema.get("logicalType")
        if isinstance(sort, dict | list):
            return self.of(sort)
        if logical in _TIMED:
            return _TIMED[logical][1]
        if logical in _OTHERS:
            return _OTHERS[logical]
        if logical is not None:  # others have functions of their own that refuse
            return None
        if sort in ("record", "error"):
            return self._of_name(schema["name"])
        if sort == "array":
            return _array(self.of(schema["items"]))
        if sort == "map":
            return _map(self.of(schema["values"]))
        return _PRIMITIVE.get(sort)

    def _of_name(self, name: str) -> Look | None:
        of = self._named.get(name)
        if of is None or "fields" not in of:
            return _PRIMITIVE.get(name)
        if name not in self._made:
            self._made[name] = lambda column: look(column)  # for a type that contains itself
            fields = [(one["name"], self.of(one["type"])) for one in of["fields"]]
            look = _record([(one, found) for one, found in fields if found is not None])
            self._made[name] = look
        return self._made[name]

    def _union(self, members: list[Any]) -> Look | None:
        """The look for a union, whose members fastavro tells apart by their types."""
        looks: dict[type, list[Look | None]] = {kind: [] for kind in (dict, list, str, *_TIMES)}
        records: dict[str, Look | None] = {}
        whole = _written_as_doubles(members)
        timed_first: bool | None = None
        for one in members:
            of = self._named.get(one) if isinstance(one, str) else one
            sort = of["type"] if isinstance(of, dict) else one
            if sort == "array":
                looks[list].append(self.of(one))
            elif sort in ("record", "error", "map"):
                looks[dict].append(self.of(one))
            elif isinstance(of, dict) and (timed := _TIMED.get(of.get("logicalType", ""))):
                timed_first = True if timed_first is None else timed_first
                looks[timed[0]].append(timed[1])
                if timed[0] is date:  # which a datetime is, too
                    looks[datetime].append(timed[1])
            elif isinstance(of, dict) and of.get("logicalType") == "uuid":
                looks[str].append(_of_uuids if sort == "string" else None)
            elif sort in ("string", "enum"):
                looks[str].append(None)
            elif sort in ("int", "long") and timed_first:
                looks[int] = [_of_no_numbers]
            elif sort in ("int", "long", "float", "double"):
                timed_first = False
            if isinstance(of, dict) and "fields" in of:
                records[of["name"]] = looks[dict][-1]
        # fastavro takes the first member that a time or a text fits.
        single = {
            kind: some[0]
            for kind, some in looks.items()
            if len(some) == 1 or (some and kind in _BY_FIRST)
        }

        def look(column: list[Any]) -> None:
            for kind, of_kind in single.items():
                some = [one for one in column if type(one) is kind]
                if some and of_kind is not None:
                    of_kind(some)
            for one in column:
                if type(one) is tuple and len(one) == 2 and one[0] in records:
                    of_record = records[one[0]]
                    if of_record is not None:
                        of_record([one[1]])
            if whole is not None:
                _of_doubles([one for one in column if type(one) is int and one not in whole])

        return look if any((*single.values(), *records.values(), whole is not None)) else None


def _written_as_doubles(members: list[Any]) -> range | None:
    """The whole numbers that a union does not write as doubles; None: there are no others."""
    numbers = [one for one in members if one in ("int", "long", "float", "double")]
    before = numbers[: min(map(numbers.index, {"float", "double"} & {*numbers}), default=0)]
    if numbers == before or "long" in before or not {"float", "double"} & {*numbers}:
        return None
    return range(_INT_MIN, _INT_MAX + 1) if before else range(0)


def _record(fields: list[tuple[str, Look]]) -> Look:
    getters = [(name, itemgetter(name), look, _EXACT.get(look)) for name, look in fields]

    def look(column: list[Any]) -> None:
        if not column:  # of a type that has lists of its own
            return
        one = column[0] if len(column) == 1 and type(column[0]) is dict else {}
        for name, get, of_field, exact in getters:
            if exact is not None and type(one.get(name)) is exact:
                continue
            try:
                values = list(map(get, column))
            except (KeyError, TypeError):  # fields left out have defaults; fastavro refuses others
                if (
                    no_dict := next((v for v in column if not isinstance(v, Mapping)), None)
                ) is not None:
                    _refuse("a dict of a record's fields", no_dict)
                values = [v[name] for v in column if isinstance(v, Mapping) and name in v]
            try:
                of_field(values)
            except UnlikeSchemaError as error:
                raise error.within(name) from None

    return look


def _array(items: Look | None) -> Look:
    def look(column: list[Any]) -> None:
        if not set(map(type, column)) <= {list, tuple}:
            for one in column:
                if isinstance(one, str | bytes | bytearray | Mapping | Set):
                    _refuse("a list", one)
        if items is not None:
            items(list(chain.from_iterable(column)))

    return look


def _map(values: Look | None) -> Look | None:
    if values is None:
        return None

    def look(column: list[Any]) -> None:
        values([value for one in column if isinstance(one, Mapping) for value in one.values()])

    return look


def _of_nulls(column: list[Any]) -> None:
    for one in column:
        if one is not None:
            _refuse("None", one)


def _of_booleans(column: list[Any]) -> None:
    if not set(map(type, column)) <= {bool}:
        _refuse("True or False", next(one for one in column if type(one) is not bool))


def _of_longs(column: list[Any]) -> None:
    if not set(map(type, column)) <= {int}:
        for one in column:
            if isinstance(one, bool) or not isinstance(one, Integral):
                _refuse("a whole number", one)


def _of_ints(column: list[Any]) -> None:
    _of_longs(column)
    if column and (min(column) < _INT_MIN or max(column) > _INT_MAX):
        beyond = next(one for one in column if not _INT_MIN <= one <= _INT_MAX)
        _refuse("a whole number of 32 bits", beyond)


def _of_doubles(column: list[Any]) -> None:
    if not set(map(type, column)) <= {float}:
        for one in column:
            if type(one) is not float and not _is_double(one):
                _refuse("a number that a double can be", one)


def _is_double(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Number):
        return False
    try:
        found: Any = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return bool(found == value) or found != found  # NaN


def _of_floats(column: list[Any]) -> None:
    _of_doubles(column)
    try:
        struct.pack(f"<{len(column)}f", *column)
    except OverflowError:
        for one in column:
            try:
                struct.pack("<f", one)
            except OverflowError:
                _refuse("a number of single precision", one)


def _of_moments(column: list[Any], least: int, most: int) -> None:
    for one in column:
        if _is_no_time(one, least, most) or (isinstance(one, datetime) and one.tzinfo is None):
            _refuse("a time with a zone", one)


def _of_zoneless(column: list[Any], least: int, most: int) -> None:
    for one in column:
        zoned = isinstance(one, datetime | time) and one.tzinfo is not None
        if zoned or _is_no_time(one, least, most):
            _refuse("a time without a zone", one)


def _is_no_time(value: Any, least: int, most: int) -> bool:
    """True for what is no time, and for a number that stands for none, so none could be read."""
    if isinstance(value, bool) or not isinstance(value, date | time | Integral):
        return True
    return isinstance(value, Integral) and not least <= int(value) <= most


def _of_dates(column: list[Any]) -> None:
    for one in column:
        if isinstance(one, datetime) or _is_no_time(one, _DAYS[0], _DAYS[1]):
            _refuse("a date", one)


def _of_uuids(column: list[Any]) -> None:
    for one in column:
        if isinstance(one, str) and not _is_uuid(one):
            _refuse("a UUID", one)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _of_decimals(column: list[Any]) -> None:
    for one in column:
        if isinstance(one, Decimal):
            if not one.is_finite():
                _refuse("a finite number", one)
        elif not isinstance(one, bytes | bytearray):
            _refuse("a Decimal", one)


def _of_no_numbers(column: list[Any]) -> None:
    """Refuses numbers of a union in which one that stands for times comes before theirs."""
    for one in column:
        _refuse("a date or a time, whose type is before that of numbers in the union", one)


def _refuse(expected: str, value: Any) -> NoReturn:
    raise UnlikeSchemaError(expected, value)


_PRIMITIVE: dict[str, Look] = {
    "null": _of_nulls,
    "boolean": _of_booleans,
    "int": _of_ints,
    "long": _of_longs,
    "float": _of_floats,
    "double": _of_doubles,
}
#: Looks that see nothing in values of exactly one type.
_EXACT: dict[Look, type] = {_of_booleans: bool, _of_longs: int, _of_doubles: float}
#: The numbers of days, and of microseconds, that are a date and a time of Python's.
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
_DAY = 86_400 * 1_000_000


def _timed() -> dict[str, tuple[type, Look]]:
    found: dict[str, tuple[type, Look]] = {"date": (date, _of_dates)}
    for unit, micros in (("millis", 1_000), ("micros", 1)):
        least, most = _DAYS[0] * _DAY // micros, (_DAYS[1] + 1) * _DAY // micros - 1
        found[f"timestamp-{unit}"] = datetime, partial(_of_moments, least=least, most=most)
        found[f"local-timestamp-{unit}"] = datetime, partial(_of_zoneless, least=least, most=most)
        found[f"time-{unit}"] = time, partial(_of_zoneless, least=0, most=_DAY // micros - 1)
    return found


#: Types by which numbers stand for dates and times: Python's type, and the look. A moment that is
#: read has a zone, and the others have none.
_TIMED = _timed()
#: Types that Python has others for, and that fastavro writes, or refuses in words of its own.
_OTHERS: dict[str, Look] = {"uuid": _of_uuids, "decimal": _of_decimals}
#: Kinds of values of which a union may have several types.
_BY_FIRST = frozenset({str, *_TIMES})
