"""docs/how-to/grpc-clients.md names the clients that interop builds the page's programs with, in the same versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.test_docs import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/grpc-clients.md").read_text(encoding="utf-8")
PROGRAMS = ROOT / "interop/grpc"
LANGUAGES = ("java", "python", "go", "javascript", "rust")


@pytest.mark.parametrize(
    ("named", "manifest", "version"),
    [
        (r"rocketmq-client-java:([\d.]+\d)", "java/pom.xml", r"rocketmq-client-java</artifactId>\s*<version>([^<]+)<"),
        (r"rocketmq-python-client==([\d.]+\d)", "python/requirements.txt", r"rocketmq-python-client==(\S+)"),
        (r"golang/v5@v([\d.]+\d)", "go/go.mod", r"rocketmq-clients/golang/v5 v(\S+)"),
        (r"rocketmq-client-nodejs@([\d.]+\d)", "node/package.json", r'"rocketmq-client-nodejs": "([^"]+)"'),
    ],
)
def test_the_page_names_the_version_that_its_program_ran_with(named: str, manifest: str, version: str) -> None:
    [built_with] = re.findall(version, (PROGRAMS / manifest).read_text(encoding="utf-8"))
    assert re.findall(named, PAGE) == [built_with]


def test_the_dependencies_of_the_program_in_rust_are_those_that_it_ran_with() -> None:
    [block] = [each.code for each in blocks_of(PAGE) if each.info == "toml"]
    shown = tomllib.loads(block)["dependencies"]
    built_with = tomllib.loads((PROGRAMS / "rust/Cargo.toml").read_text(encoding="utf-8"))["dependencies"]
    assert shown == {name: built_with[name] for name in shown}
    assert built_with.keys() - shown.keys() == {"serde_json"}, "what the driver alone needs"


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_is_one_program_in_each_language(language: str) -> None:
    assert [each.info for each in blocks_of(PAGE)].count(language) == 1
