"""Mappings as JSON: one object a line in, one a line out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopLevel, LoopMapping, LoopNest, SlidingWindow, convolution, depthwise, product
from tilestitch.mapping.evaluate import Priced, Pricer

MOST_EXTENT = 10**7
_CONVOLUTION = ("N", "M", "C", "Ox", "Oy", "Fx", "Fy")
_KEYS = ("nest", "factors", "orders", "mode")
_NEST_KEYS = {
    "conv": ("kind", "extents", "stride", "dilation", "groups", "padded"),
    "dwconv": ("kind", "extents", "stride", "dilation", "padded"),
    "gemm": ("kind", "extents"),
}


def price_lines(lines: Iterable[str], machine: ArrayMachine) -> Iterator[str]:
    """The price of the mapping in every line, as a line; `{"error": ...}` for one that says no mapping.

    A mapping that does not fit the machine is priced all the same, with `"valid": false` and the reason. Empty lines
    are passed over.
    """
    pricers: dict[str, Pricer] = {}
    for line in lines:
        if line.strip():
            try:
                found = _priced(line, machine, pricers)
            except InputError as error:
                found = {"error": str(error)}
            yield json.dumps(found)


def price_json(found: Mapping[str, Any], machine: ArrayMachine) -> dict[str, Any]:
    """The price of a mapping given as the object that a line holds; raises InputError where it says no mapping."""
    nest, mode = nest_of(found), _mode(found)
    return priced_json(Pricer(nest, machine, mode)(mapping_of(nest, found, mode)), mode)


def priced_json(priced: Priced, mode: CostMode) -> dict[str, Any]:
    """What a line says of a price. Energies are picojoules; in published mode their sum is a whole number."""
    found: dict[str, Any] = {"valid": not priced.misfit}
    if priced.misfit:
        found["reason"] = priced.misfit
    found["cycles"] = priced.cycles
    found["energy_pj"] = int(priced.energy_pj) if mode is CostMode.PUBLISHED else priced.energy_pj
    found["energy"] = priced.components
    found["accesses"] = {
        one.operand: {
            "network_words": one.network_words,
            "spm_words": one.scratchpad_words,
            "dram_load_words": one.dram_load_words,
            "dram_store_words": one.dram_store_words,
        }
        for one in priced.accesses
    }
    return found


def _priced(line: str, machine: ArrayMachine, pricers: dict[str, Pricer]) -> dict[str, Any]:
    found = parsed_line(line)
    mode = _mode(found)
    key = json.dumps([found.get("nest"), mode])
    if key not in pricers:
        pricers[key] = Pricer(nest_of(found), machine, mode)
    pricer = pricers[key]
    return priced_json(pricer(mapping_of(pricer.nest, found, mode)), mode)


def parsed_line(line: str) -> dict[str, Any]:
    """The object that a text holds."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a line of JSON: {printable(str(error))}") from None
    if not isinstance(found, dict):
        raise InputError(f"expected an object with the keys {', '.join(_KEYS)}, found {_shown(found)}")
    return found


def nest_of(found: Mapping[str, Any]) -> LoopNest:
    """The nest of a line."""
    _known(found, _KEYS, "the line")
    nest = _object(found, "nest", "the line")
    kind = nest.get("kind")
    if not isinstance(kind, str) or kind not in _NEST_KEYS:
        raise InputError(f"nest.kind: expected conv, dwconv or gemm, found {_shown(kind)}")
    _known(nest, _NEST_KEYS[kind], "nest")
    extents = _object(nest, "extents", "nest")
    if kind == "gemm":
        sizes = _sizes(extents, ("M", "N", "K"), {"B": 1}, "nest.extents")
        return product(kind, m=sizes["M"], n=sizes["N"], k=sizes["K"], batch=sizes["B"])
    optional = {"M": 1} if kind == "dwconv" else {}
    sizes = _sizes(extents, [name for name in _CONVOLUTION if name not in optional], optional, "nest.extents")
    stride, dilation = (_pair(nest, key) or (1, 1) for key in ("stride", "dilation"))
    n, c, output = sizes["N"], sizes["C"], (sizes["Ox"], sizes["Oy"])
    window = SlidingWindow((sizes["Fx"], sizes["Fy"]), stride, dilation)
    read = window.pixels_read(output)
    padded = _pair(nest, "padded") or read
    if padded[0] < read[0] or padded[1] < read[1]:
        raise InputError(f"nest.padded: {list(padded)} is less than what is read, {list(read)}")
    if kind == "dwconv":
        if sizes["M"] != 1:
            raise InputError(f"nest.extents.M: a depthwise convolution has 1, found {sizes['M']}; see conv with groups")
        return depthwise(kind, n=n, c=c, output=output, window=window, padded=padded)
    groups = _whole(nest.get("groups", 1), "nest.groups")
    return convolution(kind, n=n, m=sizes["M"], c=c, output=output, window=window, groups=groups, padded=padded)


def mapping_of(nest: LoopNest, found: Mapping[str, Any], mode: CostMode) -> LoopMapping:
    """The mapping of a line. Loops that a level does not name have the factor 1 there; such need no place in orders."""
    factors, orders = _object(found, "factors", "the line"), _object(found, "orders", "the line")
    _known(factors, tuple(LoopLevel), "factors")
    _known(orders, (LoopLevel.DRAM, LoopLevel.SPM), "orders")
    names = [loop.name for loop in nest.loops]
    rows = []
    for level in LoopLevel:
        given = _object(factors, level, "factors") if level in factors else {}
        sizes = _sizes(given, (), dict.fromkeys(names, 1), f"factors.{level}")
        rows.append(tuple(sizes[name] for name in names))
    dram, spm, rf, spatial = rows
    mapping = LoopMapping(
        dram,
        spm,
        rf,
        spatial,
        _order(nest, orders, LoopLevel.DRAM, dram),
        _order(nest, orders, LoopLevel.SPM, spm),
    )
    if mapping.is_exact(nest) or (mode is CostMode.DEFAULT and mapping.covers(nest)):
        return mapping
    for at, loop in enumerate(nest.loops):
        parts = [row[at] for row in rows]
        whole = parts[0] * parts[1] * parts[2] * parts[3]
        if whole != loop.extent:
            more = (
                "; ragged factors cover it, and each counts the tiles that there are"
                if mode is CostMode.DEFAULT
                else ""
            )
            raise InputError(
                f"factors of {loop.name}: {' x '.join(map(str, parts))} = {whole}, expected {loop.extent}{more}"
            )
    raise AssertionError("a mapping that covers nothing has a factor that is wrong")


def _order(nest: LoopNest, orders: Mapping[str, Any], level: LoopLevel, factors: Sequence[int]) -> tuple[int, ...]:
    """Loop numbers, outermost first: those that are not named are outside, where they do nothing."""
    given = orders.get(level, [])
    if not isinstance(given, list):
        raise InputError(f"orders.{level}: expected a list of loops, the outermost first, found {_shown(given)}")
    found = []
    for name in given:
        number = nest.loop(name) if isinstance(name, str) else None
        if number is None:
            known = ", ".join(loop.name for loop in nest.loops)
            raise InputError(f"orders.{level}: found {_shown(name)}; loops are {known}")
        if number in found:
            raise InputError(f"orders.{level}: {name} appears twice")
        found.append(number)
    for number, loop in enumerate(nest.loops):
        if number not in found and factors[number] > 1:
            raise InputError(f"orders.{level}: {loop.name} has the factor {factors[number]} but is missing")
    return (*(number for number in range(len(nest.loops)) if number not in found), *found)


def _mode(found: Mapping[str, Any]) -> CostMode:
    mode = found.get("mode", CostMode.DEFAULT)
    if not isinstance(mode, str) or mode not in tuple(CostMode):
        raise InputError(f"mode: expected {' or '.join(CostMode)}, found {_shown(mode)}")
    return CostMode(mode)


def _object(found: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = found.get(key)
    if not isinstance(value, dict):
        raise InputError(f"{key}: expected an object, found {_shown(value) if key in found else 'nothing'} in {where}")
    return value


def _known(found: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in found:
        if key not in keys:
            raise InputError(f"unknown key {_shown(key)} in {where}; known: {', '.join(keys)}")


def _sizes(
    found: Mapping[str, Any], required: Sequence[str], optional: Mapping[str, int], where: str
) -> dict[str, int]:
    _known(found, (*required, *optional), where)
    missing = [name for name in required if name not in found]
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} missing")
    given = {name: _whole(value, f"{where}.{name}") for name, value in found.items()}
    return {**optional, **given}


def _pair(nest: Mapping[str, Any], key: str) -> tuple[int, int] | None:
    """A number for rows and columns, or one for both; None where the key is missing."""
    if key not in nest:
        return None
    value = nest[key]
    if isinstance(value, list) and len(value) == 2:
        return _whole(value[0], f"nest.{key}"), _whole(value[1], f"nest.{key}")
    one = _whole(value, f"nest.{key}", " or a list of two")
    return one, one


def _whole(value: object, where: str, more: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_EXTENT:
        _refuse(where, f"a whole number above 0 and at most {MOST_EXTENT:,}{more}", value)
    return value


def _refuse(where: str, expected: str, value: object) -> NoReturn:
    raise InputError(f"{where}: expected {expected}, found {_shown(value)}")


def _shown(value: object) -> str:
    return printable(json.dumps(value), 60)
