"""A user's own schedule, kernel, resampler or model: an object, ``file.py:name`` or ``package.module:name``.

A model file is code: it is executed when it is loaded.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from smcda.errors import BadInput


def is_reference(value: Any) -> bool:
    """Whether a value names an object outside the package."""
    return isinstance(value, str) and ":" in value


def look_up(table: str | Mapping[str, Any], value: Any) -> Any:
    """What an option means: an entry of the package's table, a reference to load, or the object itself."""
    if not isinstance(value, str):
        return value
    known: Mapping[str, Any] = resolve_name(table) if isinstance(table, str) else table
    return known[value] if value in known else load_object(value)


def load_object(reference: str) -> Any:
    """Import ``file.py:name`` or ``package.module:name``; what goes wrong is one line."""
    place, _, name = reference.rpartition(":")
    if not (place and name):
        raise BadInput(f"{reference!r} names no object: give file.py:name or package.module:name")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadInput(f"{place} can't be imported: {one_line(error)}") from error
    if not hasattr(module, name):
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and key[0] != "_")
        raise BadInput(f"{place} has no {name!r}: it has {known or 'nothing that can be called'}")
    return getattr(module, name)


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise BadInput(f"{path} is not a file: give the path of a Python file, then a colon and a name")
    # A name of its own, so that `model.py` hides no package, and the same file is executed once.
    name = f"smcda_user_{path.resolve().as_posix().encode().hex()}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def call(what: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a user's function; what it raises becomes one line."""
    try:
        return function(*arguments, **options)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{what} failed: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Kind and text of an exception, at most 300 characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def name_of(value: Any) -> str:
    """What to call an option's value in a title, a file or a fingerprint."""
    if isinstance(value, str):
        return value
    return getattr(value, "__qualname__", None) or type(value).__qualname__
