"""``module:app`` as people write it on a command line: imported from the working directory or the path."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from pyromq.app.app import App
from pyromq.errors import ConfigError


def load_app(target: str) -> App:
    """``shop:app``, ``shop.main:app``, ``shop`` (its ``app``); ``shop:make_app()`` is called. Raises ConfigError.

    What the module itself raises when it is imported comes out as it is.
    """
    name, _, attribute = target.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise ConfigError(f"{target!r}: write module:app, as in shop.main:app for shop/main.py")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ConfigError(f"there is no module {error.name!r} in {here} or on the path") from error
    return _found(target, module, attribute or "app")


def _found(target: str, module: object, attribute: str) -> App:
    is_factory = attribute.endswith("()")
    found: object = module
    for part in attribute.removesuffix("()").split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
            advice = f"; there is {', '.join(apps)}" if apps else ""
            raise ConfigError(f"{target!r}: the module has no {part!r}{advice}") from error
    if is_factory:
        if not callable(found):
            raise ConfigError(f"{target!r}: {attribute.removesuffix('()')!r} cannot be called")
        found = found()
    if not isinstance(found, App):
        advice = "; write () behind a function that makes one" if callable(found) and not is_factory else ""
        raise ConfigError(f"{target!r} is a {type(found).__name__}, not a pyromq.App{advice}")
    return found
