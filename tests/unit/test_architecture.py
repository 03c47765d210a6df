"""The floor plan holds: the table in docs/architecture.md is what the imports say, and the import rules really bite."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pyromq"
ROOM_MODULES_MAX = 25
PARAMETERS_MAX = 8


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    """The part of pyromq that a file belongs to: a folder, or a module beside the folders."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def table() -> list[tuple[set[str], set[str] | None]]:
    """Rows of docs/architecture.md: parts, and what they may import; None is anything."""
    rows: list[tuple[set[str], set[str] | None]] = []
    for line in (ROOT / "docs/architecture.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            parts = {name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", cells[0])}
            rows.append((parts, None if cells[3] == "anything" else set(re.findall(r"`(\w+)`", cells[3]))))
    return rows


def test_the_table_in_the_architecture_page_is_what_the_imports_say() -> None:
    parts = {package_of(path) for path in modules()} - {"__init__", "__main__"}
    rows = table()
    assert parts == set().union(*(names for names, _ in rows)), "each part of pyromq has its row, and each row its part"
    used: dict[str, set[str]] = {part: set() for part in parts}
    for path in modules():
        part = package_of(path)
        for name in imported_by(path):
            words = name.split(".")
            if part in parts and words[0] == "pyromq" and len(words) > 1 and words[1] in parts - {part}:
                used[part].add(words[1])
    for names, allowed in rows:
        if allowed is not None:
            for part in names:
                assert used[part] <= allowed, f"{part} imports {used[part] - allowed}, which the table does not allow"
            unused = allowed - set().union(*(used[part] for part in names))
            assert not unused, f"the table allows {names} to import {unused}, which they do not"


BREAKS = {
    "packages lean on what is below them": ("wire/frame.py", "import pyromq.broker.broker"),
    "only servers, their tools and the reader of store files know the store": (
        "client/core/tasks.py",
        "import pyromq.store.message_store",
    ),
    "servers are known where they are started": ("cli/nouns/topic.py", "import pyromq.broker.broker"),
    "sockets belong to servers and clients": ("pipeline/core/offsets.py", "import pyromq.net.connection"),
    "faces ask the operator plane, not servers": ("exporter/facts.py", "import pyromq.client.admin.requests"),
    "rooms of the client": ("client/core/routes.py", "import pyromq.client.admin"),
    "rooms of the consumer": ("client/consumer/base/broker_calls.py", "import pyromq.client.consumer.group_member"),
    "rooms of the broker": ("broker/base/session.py", "import pyromq.broker.admin.topic_requests"),
    "rooms of the store": ("store/files/segments.py", "import pyromq.store.recovery"),
    "rooms of the pipeline": ("pipeline/arrow/slices.py", "import pyromq.pipeline.sink.sender"),
    "rooms of the jobs": ("pipeline/jobs/common/bars.py", "import pyromq.pipeline.jobs.running.run"),
    "rooms of the command line": ("cli/output/times.py", "import pyromq.cli.main"),
    "rooms of the console": ("console/settings.py", "import pyromq.console.web.pages"),
    "decisions of a consumer do no I/O and know no client": ("client/consumer/rules/assign.py", "import asyncio"),
    "planning, reading and decoding do not know Spark": ("pipeline/reading/plan.py", "import pyspark"),
    "formats, filters and values do no I/O and read no clock": ("wire/record.py", "import time"),
    "the store is synchronous, and takes from wire only the formats that rest on disk": (
        "store/settings.py",
        "import asyncio",
    ),
    "time comes in through the clock": ("broker/base/session.py", "import time"),
    "outbox and idempotent see databases through our own door": ("outbox/outbox.py", "import sqlalchemy"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "400"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.check
def test_every_import_rule_fails_when_it_is_broken(tmp_path: Path) -> None:
    if shutil.which("lint-imports", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("import-linter is not installed (make setup installs it)")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(SOURCE, tmp_path / "src" / "pyromq", ignore=shutil.ignore_patterns("__pycache__"))
    before = lint(tmp_path)
    assert before.returncode == 0, before.stdout
    names = re.findall(r"^(.*?) KEPT", before.stdout, re.MULTILINE)
    assert set(names) == set(BREAKS), "each rule has a line here that breaks it"
    for place, line in BREAKS.values():
        path = tmp_path / "src" / "pyromq" / place
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    after = lint(tmp_path)
    assert after.returncode != 0
    kept = re.findall(r"^(.*?) KEPT", after.stdout, re.MULTILINE)
    assert kept == [], "a rule was broken and nothing was said"


def test_no_room_is_a_corridor() -> None:
    counts = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in modules()}}
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > ROOM_MODULES_MAX}
    assert crowded == {}


def test_every_room_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_parameter_list_is_long() -> None:
    long = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                count = sum(argument.arg not in ("self", "cls") for argument in arguments)
                if count > PARAMETERS_MAX:
                    long.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name} has {count}")
    assert long == []
