"""The page and links of package indexes, and the bill of materials."""

from __future__ import annotations

import tomllib
from pathlib import Path

from release.build_hook import bill_of_materials, home, index_page, project_links

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/pyromq"


def test_links_lead_to_the_repository_at_that_version() -> None:
    page = index_page("a [guide](docs/a.md) ![p](docs/p.png) [out](https://x.org) [here](#top)", HOME, "v1.0.0")
    assert f"[guide]({HOME}/blob/v1.0.0/docs/a.md)" in page
    assert f"![p]({HOME}/raw/v1.0.0/docs/p.png)" in page
    assert "[out](https://x.org) [here](#top)" in page


def test_without_a_public_repository_no_link_is_dead() -> None:
    page = index_page((ROOT / "README.md").read_text(encoding="utf-8"), "", "v1.0.0")
    assert "](docs/" not in page
    assert "<!--" not in page
    assert project_links("") == {}


def test_the_address_is_read_from_a_file_that_a_person_writes(tmp_path: Path) -> None:
    assert home(tmp_path) == ""
    (tmp_path / "release").mkdir()
    (tmp_path / "release/home.txt").write_text(f"{HOME}/\n")
    assert home(tmp_path) == HOME
    assert project_links(HOME)["Changelog"] == f"{HOME}/blob/main/CHANGELOG.md"


def test_the_bill_of_materials_names_every_requirement_and_is_the_same_each_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bill = bill_of_materials(project)
    assert bill == bill_of_materials(project)
    assert {each["properties"][0]["value"] for each in bill["components"]} == set(project["dependencies"])
    assert bill["dependencies"][0]["dependsOn"] == [each["purl"] for each in bill["components"]]
    assert "pkg:pypi/zlib-ng" in bill["dependencies"][0]["dependsOn"]
