"""Values of our cores to plain JSON and back.

Encoding is by field: dataclasses become objects, enums their values, tuples and sets lists. Decoding goes by the type
hints of the class that is asked for, so a file can name no type of its own choosing: what is read is one of our
frozen values or an error.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TypeAlias, Union, get_args, get_origin, get_type_hints

from pipecat_voicectx.errors import BadInputError, UsageError

__all__ = ["Json", "TypeHint", "decode", "encode"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
TypeHint: TypeAlias = object
"""A class, or what `typing.get_type_hints` gives for one."""

_TYPE_KEY = "type"
# Chosen: our values nest four deep; what is deeper was not written by us, and must not exhaust the stack.
_DEEPEST = 24


def encode(value: object) -> Json:
    """Plain JSON types; dataclasses also say which they are, under `type`. Foreign objects become their type's name."""
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Json] = {_TYPE_KEY: type(value).__name__}
        for item in dataclasses.fields(value):
            out[item.name] = encode(getattr(value, item.name))
        return out
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((encode(item) for item in value), key=repr)
    return f"<{type(value).__name__}>"


def decode(hint: TypeHint, data: Json, *, depth: int = 0) -> object:
    """The value of type `hint` that `encode` made `data` from.

    Raises:
        BadInputError: `data` is no such value.
    """
    if depth > _DEEPEST:
        raise BadInputError("recorded value is nested too deeply")
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(hint), data, depth)
    if origin is not None:
        return _decode_collection(origin, get_args(hint), data, depth)
    if hint is object or isinstance(hint, str):
        return data
    if hint is None or hint is type(None):
        if data is None:
            return None
    elif isinstance(hint, type):
        return _decode_class(hint, data, depth)
    raise BadInputError(f"recorded value is no {hint}")


def _decode_union(options: Sequence[TypeHint], data: Json, depth: int) -> object:
    if isinstance(data, dict) and isinstance(data.get(_TYPE_KEY), str):
        named = [o for o in options if isinstance(o, type) and o.__name__ == data[_TYPE_KEY]]
        options = named or options
    for option in options:
        try:
            return decode(option, data, depth=depth + 1)
        except BadInputError:
            continue
    raise BadInputError(f"recorded value fits none of {', '.join(map(_name, options))}")


def _decode_collection(origin: object, inner: Sequence[TypeHint], data: Json, depth: int) -> object:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise BadInputError("recorded value is no object")
        hint = inner[1] if len(inner) == 2 else object
        return {key: decode(hint, item, depth=depth + 1) for key, item in data.items()}
    if not isinstance(data, list):
        raise BadInputError("recorded value is no list")
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(inner) != len(data):
            raise BadInputError(f"recorded tuple has {len(data)} items, not {len(inner)}")
        return tuple(decode(hint, item, depth=depth + 1) for hint, item in zip(inner, data, strict=True))
    hint = inner[0] if inner else object
    items: Iterable[object] = (decode(hint, item, depth=depth + 1) for item in data)
    return frozenset(items) if origin in (set, frozenset) else tuple(items)


def _decode_class(cls: type, data: Json, depth: int) -> object:
    if issubclass(cls, Enum):
        try:
            return cls(data)
        except (ValueError, TypeError) as error:
            raise BadInputError(f"{data!r} is no {cls.__name__}") from error
    if dataclasses.is_dataclass(cls):
        return _decode_dataclass(cls, data, depth)
    if cls is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if cls is int and isinstance(data, bool):
        raise BadInputError("recorded value is no int")
    if not isinstance(data, cls):
        raise BadInputError(f"recorded value is no {cls.__name__}")
    return data


def _decode_dataclass(cls: type, data: Json, depth: int) -> object:
    if not isinstance(data, dict):
        raise BadInputError(f"recorded value is no {cls.__name__}")
    if data.get(_TYPE_KEY, cls.__name__) != cls.__name__:
        raise BadInputError(f"recorded value is a {data[_TYPE_KEY]}, not a {cls.__name__}")
    hints = _hints(cls)
    fields = {name: decode(hint, data[name], depth=depth + 1) for name, hint in hints.items() if name in data}
    try:
        return cls(**fields)
    except (TypeError, UsageError) as error:
        raise BadInputError(f"{cls.__name__}: {error}") from error


@lru_cache(maxsize=128)
def _hints(cls: type) -> Mapping[str, TypeHint]:
    known = get_type_hints(cls)
    return {item.name: known[item.name] for item in dataclasses.fields(cls) if item.init}


def _name(hint: TypeHint) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
