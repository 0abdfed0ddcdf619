"""Functions of numbers and arrays, compiled by numba and kept on disk.

numba keeps a compiled function under the time of its own file. But the code that it calls, and every constant that it
names, is part of what was compiled, and may stand in another file. So what is kept here is kept under a digest of
all that was baked in: the code of a function and, one after another, of the functions that it names, the constants,
and the fields of the tuples.

Compiling takes from a tenth of a second to half a minute. A function whose work is small beside that is `tiered`: it is
interpreted until compiling it pays.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock

from tilestitch.base.interruption import compiling, undisturbed
from tilestitch.base.tiers import Tier

_told: list[Callable[[str], None]] = []  # whom to tell of functions that are compiled
_told_of_interpreted: list[Callable[[str], None]] = []  # whom to tell that a function is interpreted
_compiling: list[Any] = []  # functions that this process compiles, each for one of those before it

_Function = TypeVar("_Function", bound=Callable)


def compiled(function: _Function) -> _Function:
    """The function, compiled when it is first called; from disk where that was done before."""
    return _kept(function)


def tiered(function: _Function) -> _Function:
    """A compiled function that is interpreted at first: see `tiers`. For one whose single calls are short."""
    return _tiered(function)


def borrowing(function: _Function) -> _Function:
    """A tiered function that makes no array, and so need not count who holds those that it is given: see `lending`."""
    return _tiered(function, _nrt=False)


def inner(function: _Function) -> _Function:
    """A compiled function that only compiled code calls: without the way in from Python, a sixth of all translation."""
    return _inside(_kept(function, no_cpython_wrapper=True))


def lending(function: _Function) -> _Function:
    """An inner function that makes no array, and so need not count who holds those that it is lent.

    Counting takes some nanoseconds for each array of each call: much, where every cycle makes some calls.
    """
    return _inside(_kept(function, no_cpython_wrapper=True, _nrt=False))


def inlined(function: _Function) -> _Function:
    """A lending function that stands where it is called: for one that is called for every operand of a program.

    Tuples of arrays are passed by value, seven words an array: much, where a call does little with them.
    """
    return _inside(_kept(function, no_cpython_wrapper=True, _nrt=False, forceinline=True))


def contracting(function: _Function) -> _Function:
    """A lending function in which a product that is added to something may be rounded once, with it: as fast again."""
    return _inside(_kept(function, no_cpython_wrapper=True, _nrt=False, fastmath={"contract"}))


@contextmanager
def telling(compiled: Callable[[str], None], interpreted: Callable[[str], None]) -> Iterator[None]:
    """Tell the name, module:function, of each that is compiled for the first time, or that is interpreted instead."""
    _told.append(compiled)
    _told_of_interpreted.append(interpreted)
    try:
        yield
    finally:
        _told.remove(compiled)
        _told_of_interpreted.remove(interpreted)


def _tiered(function: _Function, **options: Any) -> _Function:
    found = _kept(function, **options)
    if found is not function:
        _interpreted_at_first(found, Tier(function, partial(instructions_of, function)))
    return found


def _kept(function: _Function, **options: Any) -> _Function:
    found: Any = cast(Any, njit)(cache=True, no_cfunc_wrapper=True, **options)(function)  # stubs lack options
    if found is not function:  # as it is where compiling is switched off
        found._cache.options = repr(sorted(options.items()))
        found._cache.load_overload = _of_these_contents(found._cache, found._cache.load_overload)
        found.get_call_template = _once_for_all_constants(found.get_call_template)
        found.compile = _by_one_process(found, found.compile)
    return cast(_Function, found)


def _inside(function: _Function) -> _Function:
    """A call from Python is an error, where numba would jump to a way in that is not there."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise TypeError(f"{function.__name__} is called by compiled code only: decorate it with `compiled`")

    found: Any = function
    if not isinstance(found, FunctionType):  # as it is where compiling is switched off
        found._insert, found._compile_for_args = (lambda *arguments, **named: None), refuse
    return function


def _once_for_all_constants(get_call_template: Callable) -> Callable:
    """Compile for the types of arguments. Else calls with 0, with 1 and with True each make a function of their own."""

    def without_literals(arguments: Any, named: Any) -> Any:
        return get_call_template(
            tuple(types.unliteral(one) for one in arguments),
            {name: types.unliteral(one) for name, one in named.items()},
        )

    return without_literals


def _interpreted_at_first(found: Any, tier: Tier) -> None:
    """Instead of compiling for the types of a call, give what interprets it, as long as that is no loss."""
    compile_for, found.tier = found._compile_for_args, tier

    def compiled_or_interpreted(*arguments: Any) -> Callable:
        if tier.is_spent or (tier.looks() and _is_kept(found, arguments)):
            return compile_for(*arguments)
        for tell in _told_of_interpreted:
            tell(name_of(found.py_func))
        return tier.interpret

    found._compile_for_args = compiled_or_interpreted


def name_of(function: Callable) -> str:
    """The name of a function with that of its module: module:function."""
    return f"{function.__module__}:{function.__qualname__}"


def _is_kept(found: Any, arguments: Sequence[Any]) -> bool:
    """Whether the function was compiled for arguments of these types before."""
    kept = found._cache
    _stamp(kept)
    signature = tuple(found.typeof_pyval(one) for one in arguments)
    found.targetctx.refresh()
    return kept._index_key(signature, found.targetctx.codegen()) in kept._cache_file._load_index()


def _of_these_contents(kept: Any, load: Callable) -> Callable:
    """Load only what was compiled from the same contents; what is saved afterwards is saved under them.

    Code is loaded by callbacks of LLVM, in which an interruption is lost with what they were to give: a crash.
    """

    def load_overload(*arguments: Any) -> Any:
        _stamp(kept)
        with undisturbed():
            found = load(*arguments)
        if found is None:
            for tell in _told:
                tell(name_of(kept._py_func))
        return found

    return load_overload


def _stamp(kept: Any) -> None:
    """Write the contents on what is kept: at the first call, when every name of the module has its value."""
    kept._cache_file._source_stamp = contents_of(kept._py_func) + kept.options


def _by_one_process(function: Any, compile_: Callable) -> Callable:
    """One process at a time compiles a function; another that needs it waits, and then loads it from disk.

    Compiling goes from callers to callees, so that no two processes wait for each other. Where files cannot be locked,
    each compiles for itself.
    """

    def compile_alone(signature: Any) -> Any:
        with global_compiler_lock:  # before the file: another thread may hold it, and need the file as well
            if function in _compiling:
                return compile_(signature)
            with nullcontext() if _compiling else compiling():
                _compiling.append(function)
                try:
                    with _locked(Path(function._cache.cache_path), function._cache._impl.filename_base):
                        return compile_(signature)
                finally:
                    _compiling.remove(function)

    return compile_alone


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    with ExitStack() as files:
        with suppress(ImportError, OSError):
            import fcntl  # not everywhere

            folder.mkdir(parents=True, exist_ok=True)
            fcntl.flock(files.enter_context(open(folder / f"{name}.lock", "w")), fcntl.LOCK_EX)
        yield


@cache
def contents_of(function: Callable) -> str:
    """A digest of a function's code and of everything that it names, and that they name."""
    digest = hashlib.sha256()
    for value in _named_by(function):
        text = _text_of(value.__code__) if isinstance(value, FunctionType) else _constant(value)
        digest.update(text.encode())
    return digest.hexdigest()


def instructions_of(function: Callable) -> int:
    """Of a function's byte code and of the functions that it calls, and that they call."""
    return sum(len(one.__code__.co_code) // 2 for one in _named_by(function) if isinstance(one, FunctionType))


def _named_by(function: Callable) -> Iterator[Any]:
    """A function and everything that it names, and that they name; each function once."""
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        value = waiting.pop()
        if getattr(value, "targetoptions", None):
            yield repr(sorted(value.targetoptions.items()))
        value = getattr(value, "py_func", value)  # of a compiled function
        if not isinstance(value, FunctionType):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            yield value
            named = value.__globals__
            values = [named[name] for name in _names_in(value.__code__) if name in named]
            # compiled code calls none that is not: a field has the name of one, such as a decorator
            waiting += [one for one in values if not isinstance(one, FunctionType)]
            waiting += [cell.cell_contents for cell in value.__closure__ or ()]
            waiting += list(value.__defaults__ or ())


def _text_of(code: CodeType) -> str:
    """What a function does, without the lines on which it stands."""
    constants = [_text_of(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars))


def _names_in(code: CodeType) -> list[str]:
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names_in(one)]
    return sorted({*code.co_names, *inner})


def _constant(value: Any) -> str:
    """A constant as text; a module, a type or a built-in function by its name, a named tuple also by its fields."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type):
        members = [member.value for member in value] if issubclass(value, Enum) else []
        return repr((value.__module__, value.__qualname__, getattr(value, "_fields", ()), members))
    if isinstance(value, np.ndarray):
        return repr((value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, BuiltinFunctionType | np.ufunc):
        return value.__name__
    if isinstance(value, bool | int | float | complex | str | bytes | tuple | range | np.generic | None):
        return repr(value)
    return type(value).__qualname__  # such as numba's own functions
