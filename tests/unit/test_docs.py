"""The documentation keeps its word: its code runs, its tables are complete (``test_links``: its links lead somewhere).

Python blocks of one page share a namespace and run in order, in an empty folder. A block that cannot run here has
``<!-- no-run: reason -->`` on the line before it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pyromq.broker.base.config_keys import CHANGEABLE
from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.servers.settings import for_broker, for_nameserver
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, Header
from tests.unit.settings_tables import broker_rows, nameserver_rows

ROOT = Path(__file__).parents[2]
CONFIGURE = "docs/how-to/configure-a-broker.md"
TYPED = ROOT / "docs/how-to/typed-topics.md"
SPARK_PAGES = [*sorted(ROOT.glob("docs/how-to/spark*.md")), TYPED]  # tests/spark runs them, with one Spark for all
ALONE = ROOT / "docs/how-to/outbox-django.md"  # a process has one Django: tests/unit/outbox/test_pages.py
LARGE_PAGES = ("delta-tables.md",)  # by what they import, a quarter of a gigabyte
RUNNABLE_PAGES = sorted(
    {ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")}.difference([*SPARK_PAGES, ALONE])
)

_fence = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
_is_python = re.compile(r"(py|python|python3)\b", re.IGNORECASE).match
_no_run = re.compile(r"<!--\s*no-run\b:?(?P<reason>.*?)-->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``line`` is that of its first line of code, ``before`` the last line of text above its fence."""

    info: str
    line: int
    code: str
    before: str


def blocks_of(text: str) -> Iterator[Block]:
    """All fenced blocks of a page."""
    opened: re.Match[str] | None = None
    inside: list[str] = []
    before, line = "", 0
    for number, content in enumerate(text.splitlines(), 1):
        found = _fence.match(content)
        if opened is None:
            if found:
                opened, inside, line = found, [], number + 1
            elif content.strip():
                before = content.strip()
        elif found and found["ticks"].startswith(opened["ticks"]) and not found["info"].strip():
            yield Block(opened["info"].strip(), line, dedent("\n".join(inside)), before)
            opened, before = None, ""
        else:
            inside.append(content)
    assert opened is None, f"the block that begins at line {line} is never closed"


def python_blocks_to_run(text: str) -> list[Block]:
    """Python blocks that are not marked ``no-run``; a mark without reason fails."""
    chosen = []
    for block in blocks_of(text):
        if not _is_python(block.info):
            continue
        mark = _no_run.fullmatch(block.before)
        if mark is None:
            chosen.append(block)
        else:
            assert mark["reason"].strip(), f"line {block.line - 1}: no-run needs a reason, <!-- no-run: reason -->"
    return chosen


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# --- the code runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", RUNNABLE_PAGES, ids=_name)
def test_every_python_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = python_blocks_to_run(page.read_text(encoding="utf-8"))
    if page.name in LARGE_PAGES:
        _run_elsewhere(blocks, tmp_path)
        return
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        source = "\n" * (block.line - 1) + block.code  # so that a traceback shows the line of the page
        exec(compile(source, str(page), "exec", dont_inherit=True), namespace)


def _run_elsewhere(blocks: list[Block], folder: Path) -> None:
    """In a process of their own: what they import would stay in this one."""
    script = folder / "page.py"
    script.write_text("\n\n".join(block.code for block in blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=_name)
def test_what_cannot_run_here_is_python_all_the_same(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if _is_python(block.info):
            compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)


# --- the tables are complete ---------------------------------------------------------------------------------------


def test_every_store_setting_is_documented() -> None:
    text = (ROOT / "docs/storage-format.md").read_text(encoding="utf-8")
    missing = [field.name for field in fields(StoreSettings) if f"`{field.name}`" not in text]
    assert not missing, "settings without a word in docs/storage-format.md"


def test_the_documented_default_of_a_store_setting_is_its_default() -> None:
    rows = table_rows(ROOT / "docs/storage-format.md", first="setting")
    shown = {row[0].strip("`"): row[1] for row in rows}
    assert shown == {field.name: _shown(field.name) for field in fields(StoreSettings)}


def test_every_setting_of_a_server_is_documented_with_its_names_and_default() -> None:
    """A setting without its row: put it where the settings object has it, and say in a last cell what it means."""
    documented = [row[:4] for row in table_rows(ROOT / CONFIGURE, first="in TOML")]
    expected = [*broker_rows().values(), *nameserver_rows().values()]
    missing = [f"| {' | '.join(row)} |" for row in expected if row not in documented]
    assert not missing, "rows that docs/how-to/configure-a-broker.md lacks"
    assert sorted(documented) == sorted(expected), "rows that are nobody's, or there twice"


def test_every_setting_that_may_change_is_documented() -> None:
    rows = table_rows(ROOT / CONFIGURE, first="key")
    expected = [[f"`{name}`", f"`{key.field}`", key.text_of(BrokerSettings())] for name, key in CHANGEABLE.items()]
    assert [row[:3] for row in rows] == sorted(expected)


@pytest.mark.parametrize("suffix", ["toml", "properties"])
def test_the_files_in_the_page_about_settings_can_be_used(suffix: str, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of((ROOT / CONFIGURE).read_text(encoding="utf-8")) if block.info == suffix]
    assert blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.{suffix}"
        file.write_text(block.code, encoding="utf-8")
        for_broker([file], {}, []).broker()
        if suffix == "toml":
            for_nameserver([file], {}, []).nameserver()


def test_every_header_is_in_the_table_of_codes() -> None:
    rows = table_rows(ROOT / "docs/protocol.md", first="code")
    documented = {int(number): tuple(cells) for number, *cells in rows}
    assert len(documented) == len(rows), "a code is listed twice"
    expected = {
        code.value: (code.name, _shown_type(REQUEST_HEADERS, code), _shown_type(RESPONSE_HEADERS, code))
        for code in {*REQUEST_HEADERS, *RESPONSE_HEADERS}
    }
    assert documented == expected


def test_every_module_of_headers_is_described() -> None:
    rows = table_rows(ROOT / "docs/protocol.md", first="module in `wire/headers/`")
    modules = {path.stem for path in (ROOT / "src/pyromq/wire/headers").glob("*.py")} - {"__init__"}
    assert {row[0].strip("`") for row in rows} == modules


def table_rows(page: Path, *, first: str) -> list[list[str]]:
    """The rows of all tables whose first column has that heading."""
    rows: list[list[str]] = []
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            heading = ""
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not heading:
            heading = cells[0]
        elif heading == first and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


def _shown(setting: str) -> str:
    value = getattr(StoreSettings(), setting)
    if setting == "delay_ladder_ms":
        return f"{len(value)} steps"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value.value)


def _shown_type(headers: Mapping[RequestCode, type[Header]], code: RequestCode) -> str:
    header = headers.get(code)
    return "–" if header is None else f"`{header.__module__.rpartition('.')[2]}.{header.__name__}`"


# --- this file reads pages as it says ------------------------------------------------------------------------------


def test_blocks_are_found_with_their_lines() -> None:
    text = "# Page\n\n```\nnot python\n```\n\n```python\na = 1\n\nb = a\n```\n\n- item\n\n  ```python\n  c = b\n  ```\n"
    assert [(block.line, block.code) for block in python_blocks_to_run(text)] == [(8, "a = 1\n\nb = a"), (16, "c = b")]


def test_a_block_is_skipped_for_a_reason_only() -> None:
    block = "```python\nraise SystemExit\n```\n"
    assert python_blocks_to_run(f"<!-- no-run: needs a broker -->\n{block}") == []
    assert len(python_blocks_to_run(f"<!-- no-run: too far away -->\n\ntext\n\n{block}")) == 1
    for mark in ("<!-- no-run -->", "<!-- no-run: -->"):
        with pytest.raises(AssertionError, match="needs a reason"):
            python_blocks_to_run(f"{mark}\n{block}")
