"""The loader of the compiled core: what is used, what is ignored and why, and the numbers that must agree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyromq import compiled_core
from pyromq.compiled_core import INTERFACE, CoreIgnoredWarning, load

ROOT = Path(__file__).parents[2]


def module(**names: Any) -> ModuleType:
    found = ModuleType("pyromq_core")
    vars(found).update(names)
    return found


def test_a_core_of_this_interface_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = module(INTERFACE=INTERFACE, VERSION="9.8.7")
    monkeypatch.setitem(sys.modules, "pyromq_core", fitting)
    assert load("") == (fitting, "compiled core 9.8.7")
    assert load("0") == (fitting, "compiled core 9.8.7")


@pytest.mark.parametrize("switch", ["1", "true", " YES ", "on"])
def test_the_switch_keeps_it_out_without_loading_it(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq_core", module(INTERFACE=-1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(switch) == (None, "pure Python (PYROMQ_PURE is set)")


def test_without_it_nothing_is_said_but_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq_core", None)
    assert load("") == (None, "pure Python (pyromq-core is not installed)")


@pytest.mark.parametrize("names", [{}, {"INTERFACE": INTERFACE + 1, "VERSION": "2"}, {"INTERFACE": str(INTERFACE)}])
def test_another_interface_is_ignored_with_a_warning(names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq_core", module(**names))
    with pytest.warns(CoreIgnoredWarning, match=r"speaks interface .*pip install --upgrade 'pyromq\[fast\]'"):
        core, text = load("")
    assert core is None and text.startswith("pure Python (pyromq-core speaks interface")


def test_one_that_cannot_be_loaded_is_ignored_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyromq_core.py").write_text("raise ImportError('built for another machine')")
    monkeypatch.delitem(sys.modules, "pyromq_core", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(CoreIgnoredWarning, match="cannot be loaded: built for another machine"):
        assert load("")[0] is None
    monkeypatch.delitem(sys.modules, "pyromq_core", raising=False)


def test_both_sides_name_the_same_interface_and_version() -> None:
    cargo = tomllib.loads((ROOT / "core" / "Cargo.toml").read_text())
    distribution = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = re.search(r"pub const INTERFACE: u32 = (\d+);", (ROOT / "core" / "src" / "lib.rs").read_text())
    assert found is not None and int(found[1]) == INTERFACE
    assert cargo["package"]["version"] == distribution["version"]
    assert extras["fast"] == [f"pyromq-core=={distribution['version']}"]


def test_crates_are_named_by_exact_versions() -> None:
    cargo = tomllib.loads((ROOT / "core" / "Cargo.toml").read_text())
    versions = [each if isinstance(each, str) else each["version"] for each in cargo["dependencies"].values()]
    assert versions and all(re.fullmatch(r"=\d+\.\d+\.\d+", version) for version in versions)


def test_what_is_used_has_a_description() -> None:
    assert (compiled_core.core is None) == compiled_core.DESCRIPTION.startswith("pure Python (")


# --- make setup: core/build.py ---


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("core_build", ROOT / "core" / "build.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With cargo, and pip that a test replaces."""
    found = builder()
    monkeypatch.delenv("PYROMQ_PURE", raising=False)
    monkeypatch.setattr(found.shutil, "which", lambda name: "/usr/bin/cargo")
    return found


def test_setup_goes_on_without_cargo_and_says_so_in_one_line(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    build.main()
    assert re.fullmatch(r"compiled core: not built, there is no cargo .*pure Python goes on\n", capsys.readouterr().out)
    monkeypatch.setenv("PYROMQ_PURE", "1")
    assert build.build() == "not built, PYROMQ_PURE is set; pure Python goes on"


@pytest.mark.parametrize("stderr", ["", "Collecting\n  error: failed to get `pyo3`\nerror: exit status 101"])
def test_setup_goes_on_when_crates_cannot_be_fetched(
    stderr: str, build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", stderr)
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: failed)
    text = build.build()
    assert text.startswith("not built, ") and text.endswith("; pure Python goes on") and "\n" not in text
    assert ("pyo3" in text) is bool(stderr)


def test_setup_does_not_wait_for_ever(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired("pip", timeout)

    monkeypatch.setattr(build.subprocess, "run", late)
    assert "timed out after 600 seconds" in build.build()
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, "", ""))
    assert build.build() == "built; PYROMQ_PURE=1 does without it"


# --- panics ---

_TOLD = {"new", "learn", "admit", "forget", "forget_users", "clear", "take_tallies", "__len__", "reserve"}
_TOLD |= {"list_bytes", "streams", "close"}
"""They are told what Python has checked, and forget it; nothing of them reads what came from elsewhere."""
_OWN = {"queue_tail.rs"}
"""Likewise: entries that the store made, and how many."""


def entry_points(source: str) -> list[tuple[str, str]]:
    """Names and bodies of the functions in a Rust file that Python can call."""
    blocks = re.findall(r"^#\[pymethods\]\nimpl .*?^}$", source, re.DOTALL | re.MULTILINE)
    methods = [
        found for block in blocks for found in re.findall(r"^    fn (\w+)(.*?)^    }$", block, re.DOTALL | re.MULTILINE)
    ]
    functions = re.findall(r"^#\[pyfunction\]\n(?:#.*\n)*pub fn (\w+)(.*?)^}$", source, re.DOTALL | re.MULTILINE)
    return [*methods, *functions]


def test_every_function_of_the_core_that_reads_what_came_from_elsewhere_is_guarded() -> None:
    found = [
        (f"{path.name}: {name}", "guarded(|" in body)
        for path in sorted((ROOT / "core" / "src").glob("*.rs"))
        if path.name not in _OWN
        for name, body in entry_points(path.read_text())
        if name not in _TOLD
    ]
    assert {name for name, is_guarded in found if not is_guarded} == set()
    exported = re.findall(r"wrap_pyfunction!\(\w+::(\w+)", (ROOT / "core" / "src" / "lib.rs").read_text())
    names = {name.split(": ")[1] for name, _ in found}
    methods = {"take", "take_calls", "stage_entries", "encode", "messages", "body", "property", "add", "signer"}
    methods |= {"read", "response"}
    assert exported and names == {*exported, *methods, "decode", "responses", "ack_responses"}


def test_panics_are_caught_in_one_place() -> None:
    catching = [path.name for path in (ROOT / "core" / "src").glob("*.rs") if "catch_unwind" in path.read_text()]
    assert catching == ["guard.rs"]
