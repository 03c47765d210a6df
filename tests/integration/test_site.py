"""The documentation site builds without a warning, and nothing in it comes from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli.declared import Commands
from pyromq.cli.main import app

pytest.importorskip("sphinx", reason="the dependency group docs is not installed")
pytest.importorskip("myst_parser", reason="the dependency group docs is not installed")
pytest.importorskip("furo", reason="the dependency group docs is not installed")

pytestmark = [pytest.mark.integration, pytest.mark.more]

ROOT = Path(__file__).parents[2]
LOADS = re.compile(
    r"""(?:<script[^>]*\bsrc=|<img[^>]*\bsrc=|<link[^>]*\bhref=|@import |url\()["']?(?:https?:)?//[^"')> ]+"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    places = ["--doctree-dir", str(folder / ".doctrees"), "docs", str(folder)]
    command = [sys.executable, "-m", "sphinx", *options, *places]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in ROOT.glob("docs/**/*.md")}
    assert [page for page in sorted(pages) if not (site / page).exists()] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = {
        f"{path.relative_to(site)}: {load}"
        for path in [*site.rglob("*.html"), *site.rglob("*.css")]
        for load in LOADS.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_every_command_is_on_the_page_of_commands(site: Path) -> None:
    page = (site / "reference/commands.html").read_text(encoding="utf-8")
    headings = set(re.findall(r"<h[23]>pyromq ([^<]+)<", page))
    commands = app.all_commands()
    nouns = {noun: command for noun, command in commands.items() if isinstance(command, Commands)}
    verbs = {f"{noun} {verb}" for noun, command in nouns.items() for verb in command.all_commands()}
    assert headings == verbs.union(commands)


def test_the_reference_has_the_public_names(site: Path) -> None:
    for page, name in {
        "api-pyromq": "pyromq.Producer",
        "api-aio": "pyromq.aio.PushConsumer",
        "api-errors": "pyromq.errors.MQError",
        "api-testing": "pyromq.testing.LoopbackBroker",
        "api-pipeline": "pyromq.pipeline.session",
        "api-pipeline-jobs": "pyromq.pipeline.jobs.archive",
        "api-outbox": "pyromq.outbox.OutboxProducer",
        "api-idempotent": "pyromq.idempotent.once",
    }.items():
        assert f'id="{name}"' in (site / f"reference/{page}.html").read_text(encoding="utf-8"), name
