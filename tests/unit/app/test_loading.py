"""``module:app`` on a command line, and files that change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.app.loading import load_app
from pyromq.app.reloading import Sources
from pyromq.errors import ConfigError

MODULE = """
import pyromq
app = pyromq.App(name="one")
class settings:
    inner = pyromq.App(name="two")
def make(): return pyromq.App(name="three")
def broken(): return 3
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    (tmp_path / "loaded_shop.py").write_text(MODULE)
    (tmp_path / "loaded_pack").mkdir()
    (tmp_path / "loaded_pack" / "main.py").write_text(MODULE)
    (tmp_path / "loaded_broken.py").write_text("import not_there_at_all\n")
    (tmp_path / "loaded_wrong.py").write_text("1 / 0\n")
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("loaded_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("loaded_shop:app", "one"),
        ("loaded_shop", "one"),
        ("loaded_shop:settings.inner", "two"),
        ("loaded_shop:make()", "three"),
        ("loaded_pack.main:app", "one"),
    ],
)
def test_an_app_is_found(here: Path, target: str, name: str) -> None:
    assert load_app(target).name == name


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("loaded_shop:shop", "has no 'shop'; there is app"),
        ("loaded_shop:make", r"write \(\) behind a function"),
        ("loaded_shop:broken()", "is a int, not a pyromq.App"),
        ("loaded_shop:number()", "cannot be called"),
        ("loaded_shop:number", "is a int"),
        ("loaded_nowhere:app", "no module 'loaded_nowhere'"),
        ("loaded_nowhere.main:app", "no module 'loaded_nowhere'"),
        ("loaded_shop.py:app", "write module:app"),
        ("shop/main:app", "write module:app"),
        (":app", "write module:app"),
        ("", "write module:app"),
    ],
)
def test_a_mistake_says_what_to_write(here: Path, target: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_app(target)


def test_mistakes_of_the_module_itself_come_out_as_they_are(here: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load_app("loaded_broken:app")
    with pytest.raises(ZeroDivisionError):
        load_app("loaded_wrong:app")


def test_changed_new_and_lost_files_are_seen_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    for hidden in (".venv", "__pycache__", "node_modules"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "c.py").write_text("1")
    sources = Sources([tmp_path])
    assert sources.changed() == []
    os.utime(tmp_path / "a.py", ns=(1, 1))
    (tmp_path / "b.py").unlink()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "d.py").write_text("1")
    (tmp_path / "notes.txt").write_text("1")
    (tmp_path / ".venv" / "c.py").write_text("22")
    assert [path.name for path in sources.changed()] == ["a.py", "b.py", "d.py"]
    assert sources.changed() == []
