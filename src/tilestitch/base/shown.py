"""How values show themselves: a `repr` of a few lines, a page in a notebook, a table of pandas."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

from tilestitch.base.errors import MissingPackage
from tilestitch.base.html import Record, page_html

MOST_CHARACTERS = 480  # of the fields in a `repr`
FEW = 6  # items of a tuple that are shown one by one
MOST_OF_TEXT = 60

_Kind = TypeVar("_Kind")


class Brief:
    """A dataclass whose `repr` is a few lines, however much is in it; its fields have everything."""

    __slots__ = ()

    def __repr__(self) -> str:
        return brief(self)


class Shown(Brief):
    """A dataclass that is a table in a notebook and in pandas; subclasses say with which heading and rows."""

    __slots__ = ()

    def heading(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def records(self) -> Sequence[Record]:
        """The rows of its table; names of columns have their units."""
        raise NotImplementedError

    def pictures(self) -> Sequence[str]:
        """Its pictures, in SVG."""
        return ()

    def page(self) -> str:
        """Its text for people."""
        return str(self)

    def to_dataframe(self) -> Any:  # pandas.DataFrame, which need not be installed
        """Its table as a DataFrame of pandas; raises `MissingPackage` where pandas is not installed."""
        return dataframe(self.records())

    def _repr_html_(self) -> str:
        return self.body_html()

    def body_html(self) -> str:
        """What a notebook shows of it: part of a page in HTML."""
        return page_html(self.heading(), self.records(), self.pictures(), self.page())


def dataframe(records: Sequence[Record]) -> Any:
    """Rows as a DataFrame of pandas."""
    try:
        import pandas  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPackage(
            "to_dataframe needs the package pandas, which is not installed; install it with: pip install pandas"
        ) from None
    return pandas.DataFrame([dict(one) for one in records])  # pyright: ignore


def as_kind(kind: type[_Kind], value: Any, **more: object) -> _Kind:
    """A dataclass with the fields of one that it extends, and its own."""
    return kind(**{one.name: getattr(value, one.name) for one in fields(value)}, **more)


def brief(value: Any) -> str:
    """A dataclass with its fields, as far as they find room: long text is cut, and many items are counted."""
    parts: list[str] = []
    room = MOST_CHARACTERS
    for one in fields(value):
        if one.repr:
            part = f"{one.name}={_item(getattr(value, one.name))}"
            room -= len(part) + 2
            if room < 0:
                parts.append("...")
                break
            parts.append(part)
    return f"{type(value).__name__}({', '.join(parts)})"


def _item(item: Any) -> str:
    match item:
        case Enum():
            return f"{type(item).__name__}.{item.name}"
        case None | bool() | int() | float():
            return repr(item)
        case Fraction():
            return str(item)
        case str():
            return repr(item if len(item) <= MOST_OF_TEXT else f"{item[:MOST_OF_TEXT]}...")
        case Mapping() | Set():
            return f"<{len(item)} items>" if len(item) > 0 else "{}"
        case tuple() | list():
            return _items(item)
        case _ if is_dataclass(item):
            name = getattr(item, "name", None)
            return f"<{type(item).__name__} {name[:MOST_OF_TEXT]}>" if isinstance(name, str) else _kind(item)
        case _:
            shape = getattr(item, "shape", None)
            return _kind(item) if shape is None else f"<array of {'x'.join(map(str, shape))}>"


def _items(items: Sequence[Any]) -> str:
    if len(items) <= FEW and all(one is None or isinstance(one, int | float | str | Fraction) for one in items):
        return f"({', '.join(map(_item, items))}{',' if len(items) == 1 else ''})"
    return f"<{len(items)} {type(items[0]).__name__}>" if items else "()"


def _kind(item: object) -> str:
    return f"<{type(item).__name__}>"
