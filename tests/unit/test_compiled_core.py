"""The loader of the compiled core: what is used, what is ignored and why, and the numbers that must agree."""

from __future__ import annotations

import re
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
