"""Records in columns, as functions of ``map_batches`` get them, and the columns they return.

numpy, pandas and pyarrow are imported where a function asks for their objects, and only then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import attrs
import msgspec

from streamlet.absent import explains_misuse
from streamlet.counted import counted
from streamlet.kafka.ports import Headers
from streamlet.lazy_results import count_before_promise, lazy_text, promise_text
from streamlet.user_code import package_of, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

K = TypeVar("K")
V = TypeVar("V")

#: Types that Arrow and pandas know; others within a value become numbers, texts, lists and dicts.
_KNOWN = (bytes, datetime, date, time, timedelta, UUID, Decimal)
#: Classes with several columns, of pandas, polars and Arrow.
_TABLES = ("DataFrame", "LazyFrame", "Table", "RecordBatch")
_PACKAGES = ("pandas", "polars", "pyarrow", "streamlet")
#: The methods by which columns of Arrow, of pandas and polars, and of numpy give their values.
_LISTED_BY = ("to_pylist", "to_list", "tolist")


class HasTolist(Protocol):
    """An array of numpy or a Series of pandas."""

    def tolist(self) -> Any:
        """Its values."""
        ...


class HasToPylist(Protocol):
    """An array of Arrow."""

    def to_pylist(self) -> Any:
        """Its values."""
        ...


#: A column that a function returns, whose values it says nothing about.
Column: TypeAlias = list[Any] | HasTolist | HasToPylist


class FailedAt(Exception):
    """Raised by a function of ``map_batches``: the record at ``index`` of its batch is to blame.

    The error policy decides about that record alone, and the function is called again for the
    others. Raised ``from`` another error, that one is what the policy is told.

    Attributes:
        index: of the record in the batch, from 0.
    """

    def __init__(self, index: int, message: str = "") -> None:
        super().__init__(index, message)
        self.index = index

    def __str__(self) -> str:
        message = self.args[1] if len(self.args) > 1 else ""
        return str(message) or f"the function named the record at {self.index} of its batch"


class NoColumnError(TypeError):
    """The function returned what is no column of one value for each record."""


@explains_misuse
@attrs.frozen
class RecordBatch(Generic[K, V]):
    """Records in columns of equal length, in their order.

    Made by ``map_batches``; by hand to try a function without a topology. The columns are the
    function's own.

    Attributes:
        keys: the keys.
        values: the values.
        timestamps: ms since the epoch.
        headers: pairs of name and value of each record, in order; empty where it has none.
    """

    keys: list[K]
    values: list[V]
    timestamps: list[int]
    _headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def headers(self) -> list[tuple[tuple[str, bytes | None], ...]]:
        """The headers of each record, as pairs of name and value; empty where it has none."""
        return [tuple(one or ()) for one in self._headers or [None] * len(self)]

    def to_numpy(self, *fields: str) -> np.ndarray[Any, np.dtype[Any]]:
        """The values as an array of numbers, of shape ``(records,)``; None is NaN.

        With ``fields``, these of each value, in shape ``(records, fields)``: entries of dicts,
        attributes of other objects.

        Raises:
            ModuleNotFoundError: numpy is not installed.
            TypeError: they are not numbers.
            FailedAt: a value has no such field.
        """
        numpy = _package("numpy", "to_numpy()")
        if not fields:
            array: np.ndarray[Any, np.dtype[Any]] = _numbers(numpy, self.values, "values")
            return array
        columns = [_numbers(numpy, self._field(name), f"field {name!r}") for name in fields]
        stacked: np.ndarray[Any, np.dtype[Any]] = numpy.column_stack(columns)
        return stacked

    def to_arrow(self) -> pa.RecordBatch:
        """The records as Arrow's ``RecordBatch`` with the columns key, value and timestamp.

        Dicts and objects with fields are structs.

        Raises:
            ModuleNotFoundError: pyarrow is not installed.
            pyarrow.ArrowException: the values are not of one type.
        """
        arrow = _package("pyarrow", "to_arrow()")
        columns = [_builtin(self.keys), _builtin(self.values), self.timestamps]
        arrays = [arrow.array(column) for column in columns]
        return arrow.RecordBatch.from_arrays(arrays, names=["key", "value", "timestamp"])

    def to_pandas(self) -> pd.DataFrame:
        """The records as a DataFrame with the columns key, value and timestamp.

        Dicts and objects with fields have a column for each field, named ``value.`` and its name.

        Raises:
            ModuleNotFoundError: pandas is not installed.
            FailedAt: some values have fields, and this one has none.
        """
        pandas = _package("pandas", "to_pandas()")
        values = _builtin(self.values)
        if not any(type(one) is dict for one in values):
            return pandas.DataFrame(
                {"key": _builtin(self.keys), "value": values, "timestamp": self.timestamps}
            )
        for index, one in enumerate(values):
            if not isinstance(one, dict | None):
                kind = type(one).__name__
                raise FailedAt(index, f"to_pandas() gives fields of dicts, and one is a {kind}")
        frame = pandas.DataFrame([{} if one is None else one for one in values])
        frame.columns = [f"value.{name}" for name in frame.columns]
        frame.insert(0, "key", _builtin(self.keys))
        frame["timestamp"] = self.timestamps
        return frame

    def _field(self, name: str) -> list[Any]:
        found: list[Any] = []
        values: list[Any] = list(self.values)
        try:
            for value in values:
                if value is None:
                    found.append(None)
                else:
                    found.append(value[name] if isinstance(value, dict) else getattr(value, name))
        except (KeyError, AttributeError) as error:
            raise FailedAt(len(found)) from error
        return found


def column_of(result: Any, count: int) -> list[Any]:
    """The values of a column that a function returned for so many records.

    Raises:
        NoColumnError: it is no column, or has another length.
    """
    values = list(result) if isinstance(result, list) else _listed(result)
    if len(values) != count:
        raise NoColumnError(
            f"the function returned {counted(len(values), 'value')} for a batch of "
            f"{counted(count, 'record')}: expected "
            "one for each"
        )
    if promise_text(values[0]) is not None:
        raise NoColumnError(count_before_promise(values)[1])  # which closes the others, too
    return values


def _listed(result: Any) -> list[Any]:
    kind = type(result)
    text = promise_text(result) or lazy_text(result)
    if text is not None:
        raise NoColumnError(text)
    if kind.__name__ in _TABLES and package_of(kind) in _PACKAGES:
        raise NoColumnError(f"the function returned a {kind.__name__}: return one of its columns")
    way = next((name for name in _LISTED_BY if hasattr(kind, name)), None)
    values = None if way is None else getattr(result, way)()
    if type(values) is not list:
        raise NoColumnError(
            f"the function returned {shown(result)}: expected a list, or an array or Series of "
            "numpy, pandas or pyarrow, with a value for each record"
        )
    if hasattr(kind, "index") and hasattr(kind, "isna"):
        return _of_series(result, values)
    return values


def _of_series(series: Any, values: list[Any]) -> list[Any]:
    """The values of a Series of pandas: None where a type of pandas' own has none.

    Raises:
        NoColumnError: it has been put into another order than that of the records.
    """
    places, here = series.index.tolist(), list(range(len(values)))
    if places != here and sorted(map(str, places)) == sorted(map(str, here)):
        raise NoColumnError(
            "the function returned a Series in another order than the records: sort_index() it, "
            "or reset_index(drop=True) if that order is meant"
        )
    if hasattr(series.dtype, "na_value"):
        gone = series.isna().tolist()
        return [None if no else one for one, no in zip(values, gone, strict=True)]
    return values


def _package(name: str, call: str) -> Any:
    """A package that is not required.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"{call} of a RecordBatch needs {name}, which is not installed: pip install {name}",
            name=name,
        ) from error


def _numbers(numpy: Any, column: list[Any], what: str) -> Any:
    if any(one is None for one in column):
        column = [math.nan if one is None else one for one in column]
    array = numpy.array(column)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"to_numpy() gives numbers, and {what} are of numpy's type {array.dtype}")
    return array


def _builtin(column: list[Any]) -> list[Any]:
    """A column without objects of classes: those with fields are dicts."""
    plain: Callable[..., list[Any]] = msgspec.to_builtins
    if any(hasattr(kind, "_asdict") for kind in set(map(type, column))):  # as keys of windows
        column = [one._asdict() if hasattr(type(one), "_asdict") else one for one in column]
    return plain(column, builtin_types=_KNOWN)
