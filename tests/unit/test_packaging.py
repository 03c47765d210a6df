"""What ``pip install pyromq`` brings along, and what importing it loads: few, and noticed when it becomes more."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES_MAX = 13  # decisions 44 and 124; pyromq itself is one of them
CODECS = {"msgspec", "zlib_ng", "lz4", "zstandard"}
CLIENT_MODULES_MAX = 264  # of ours, for the names that a first program imports; 194 when this was written
OPTIONAL = {  # what needs an extra, or a tool that its user has
    "console": {"jinja2", "markupsafe", "starlette", "uvicorn"},
    "pipeline": {"pyspark", "pyarrow", "numpy", "pandas", "yaml"},
    "integrations": {"opentelemetry", "airflow", "taskiq", "celery", "kombu", "dramatiq"},
    "databases/engine.py": {"sqlalchemy"},
    "databases/async_engine.py": {"sqlalchemy"},
    "databases/django_connection.py": {"django"},
    "testing": {"pytest"},
}


def installed_with(requirements: list[str]) -> set[str]:
    """Distributions that these bring along, themselves included, without extras that nobody asked for."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name not in found:
            found.add(name)
            waiting += [Requirement(text) for text in requires(name) or ()]
    return found


def test_the_core_brings_few_packages() -> None:
    found = {"pyromq", *installed_with(PROJECT["dependencies"])}
    assert len(found) <= PACKAGES_MAX, f"{len(found)} packages: {', '.join(sorted(found))}"


def test_the_count_sees_what_a_dependency_depends_on() -> None:
    assert {"rich", "markdown-it-py", "mdurl", "pygments"} <= installed_with(["rich"])
    assert installed_with(["rich; python_version < '3'"]) == set()


def _imports(tree: ast.Module) -> Iterator[str]:
    """Roots of what is imported when the module is: not inside functions, not for type checkers alone."""
    statements: list[ast.stmt] = list(tree.body)
    while statements:
        match statements.pop():
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=module, level=0) if module:
                yield module.partition(".")[0]
            case ast.If(test=test, body=body, orelse=orelse):
                statements += orelse if "TYPE_CHECKING" in ast.unparse(test) else [*body, *orelse]
            case ast.ClassDef(body=body):
                statements += body


def test_what_the_core_imports_is_among_its_dependencies() -> None:
    """Something else belongs in an extra, is imported where it is used, and is missed with the name of the extra."""
    declared = {re.split(r"[^\w-]", text)[0].lower() for text in PROJECT["dependencies"]}
    allowed = {*declared, "pyromq", *sys.stdlib_module_names}
    source = ROOT / "src/pyromq"
    found = {
        (file.relative_to(source).as_posix(), name)
        for file in source.rglob("*.py")
        for name in _imports(ast.parse(file.read_text(encoding="utf-8")))
        if name not in allowed | _optional(file.relative_to(source))
    }
    assert not found


def _optional(file: Path) -> set[str]:
    return OPTIONAL.get(file.as_posix(), OPTIONAL.get(file.parts[0], set()))


def _loaded(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_pyromq_loads_itself_alone() -> None:
    assert _loaded("import pyromq") == {"__future__", "pyromq"}


def test_a_client_loads_no_server_no_command_line_and_nothing_that_it_does_not_need_yet() -> None:
    loaded = _loaded("from pyromq import Message, Producer, PushConsumer")
    ours = {name for name in loaded if name.startswith("pyromq")}
    assert len(ours) <= CLIENT_MODULES_MAX
    parts = {name.split(".")[1] for name in ours if "." in name}
    assert not parts & {"broker", "nameserver", "store", "cli", "testing", "pipeline", "outbox", "idempotent"}
    foreign = {name.partition(".")[0] for name in loaded} - {"pyromq", *sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("_")} <= {*CODECS, "typing_extensions", "pyromq_core"}


@pytest.mark.parametrize("heavy", ["rich", "lark", "pyspark", "pyromq.client.producer"])
def test_the_help_of_the_command_line_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in _loaded("import pyromq.cli.main")
