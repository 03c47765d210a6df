"""The public surface, a line for each name: what a release promises to keep, and what a change has to tell.

    python   names in ``__all__`` of public modules, methods of public classes, their parameters
    cli      commands and their options
    http     paths and methods of the console's API
    setting  keys of servers, in TOML
    metric   names of metrics, with their labels

``release/surface.txt`` has it as it was recorded last (``make surface``); a test compares. Recording refuses to drop a
line whose name the changelog does not mention under Unreleased.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "release/surface.txt"
MODULES: Final = (
    "pyromq", "pyromq.aio", "pyromq.settings", "pyromq.results", "pyromq.selectors", "pyromq.hooks", "pyromq.offsets",
    "pyromq.schemas",
    "pyromq.monitoring", "pyromq.errors", "pyromq.typed", "pyromq.app", "pyromq.outbox", "pyromq.idempotent",
    "pyromq.lab", "pyromq.pipeline", "pyromq.pipeline.jobs", "pyromq.testing", "pyromq.integrations.logging",
    "pyromq.integrations.opentelemetry",
)  # fmt: skip


def surface() -> list[str]:
    """All lines, sorted, as the code has them now."""
    return sorted({*chain(_python(), _commands(), _http(), _settings(), _metrics())})


def recorded() -> list[str]:
    """All lines as they were recorded."""
    return RECORDED.read_text(encoding="utf-8").splitlines() if RECORDED.exists() else []


def unreported(changed: Iterable[str], changelog: str) -> list[str]:
    """Lines whose name the part Unreleased of a changelog does not mention; a class takes its members along."""
    unreleased = re.split(r"^## (?!Unreleased)", changelog, maxsplit=1, flags=re.MULTILINE)[0]
    lines = list(changed)
    members = {
        line for line in lines if re.split(r"[ ({]", line.partition(" ")[2])[0].rpartition(".")[0] in _owners(lines)
    }
    return [line for line in lines if line not in members and not any(name in unreleased for name in _names(line))]


def _owners(lines: Iterable[str]) -> set[str]:
    return {line.partition(" ")[2] for line in lines if line.startswith("python ")}


def _names(line: str) -> list[str]:
    """Words of which the changelog has to use one: the name itself, or for a parameter or option what it belongs to."""
    kind, _, rest = line.partition(" ")
    words = re.split(r"[ ({]", rest)
    match kind:
        case "python":
            parts = words[0].split(".")
            return [".".join(parts[-2:]), parts[-1], f"{parts[-2]}.*"]
        case "cli":
            option = [word for word in words if word.startswith("--")]
            return option or [" ".join(words[:2]), words[-1]]
        case "http":
            return [words[-1], words[-1].removeprefix("/api/v1")]
    return [words[0], words[0].rpartition(".")[2]]


def _python() -> Iterator[str]:
    for module in MODULES:
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", None) or _errors_of(found):
            value = getattr(found, name)
            yield f"python {module}.{name}{_parameters(value) if inspect.isroutine(value) else ''}"
            if inspect.isclass(value) and value.__module__.startswith("pyromq"):
                yield from (f"python {module}.{name}.{line}" for line in _members(value))


def _errors_of(module: Any) -> list[str]:
    return [
        name for name, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    ]


def _members(value: type) -> Iterator[str]:
    for name, member in inspect.getmembers(value):
        if name == "__init__" and not issubclass(value, BaseException):
            yield f"__init__{_parameters(member)}"
        if name.startswith("_") or not _is_ours(value, name):
            continue
        yield f"{name}{_parameters(member)}" if inspect.isroutine(member) else name
        if inspect.isclass(member) and member.__module__.startswith("pyromq.operate"):  # a facet of Admin
            yield from (f"{name}.{line}" for line in _members(member) if not line.startswith("__init__"))


def _is_ours(value: type, name: str) -> bool:
    return any(name in vars(each) and each.__module__.startswith("pyromq") for each in value.__mro__)


def _parameters(value: Any) -> str:
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(each.name for each in found if each.name != 'self')})"


def _commands() -> Iterator[str]:
    from pyromq.cli.declared import Commands
    from pyromq.cli.main import app

    def walk(command: Any, path: str) -> Iterator[str]:
        yield f"cli {path}"
        for parameter in command.params:
            yield from (f"cli {path} {option}" for option in parameter.opts if option.startswith("-"))
        for name, inner in command.all_commands().items() if isinstance(command, Commands) else ():
            yield from walk(inner, f"{path} {name}")

    return walk(app, "pyromq")


def _http() -> Iterator[str]:
    from pyromq.console import api
    from pyromq.console.web.api import Api
    from pyromq.console.web.discovery import declared_in
    from pyromq.console.web.openapi import description_of

    functions = [each for found in declared_in(api, "functions", Api) for each in found.functions]
    for path, methods in description_of(functions)["paths"].items():
        yield from (f"http {method.upper()} {path}" for method in methods)


def _settings() -> Iterator[str]:
    from pyromq.cli.servers.settings import BROKER, NAMESERVER

    for schema in (BROKER, NAMESERVER):
        yield from (f"setting {schema.table}.{name}" for name in schema.settings)


def _metrics() -> Iterator[str]:
    from release.monitoring.metrics import METRICS

    yield from (f"metric {each.name}{{{','.join(each.labels)}}}" for each in METRICS)


def main() -> int:
    """Record the surface as it is; says what came and went, and refuses what goes without a word in the changelog."""
    now, before = surface(), recorded()
    gone = [line for line in before if line not in set(now)]
    if silent := unreported(gone, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")):
        print("these go, and CHANGELOG.md does not say so under Unreleased:", *silent, sep="\n  ")
        return 1
    RECORDED.write_text("".join(f"{line}\n" for line in now), encoding="utf-8")
    for line in sorted(set(now) ^ set(before)):
        print(f"{'+' if line in now else '-'} {line}")
    print(f"{len(now)} lines in release/surface.txt")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
