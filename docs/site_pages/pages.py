"""Navigation: folders list their pages in a README.md, and pages in the root of the repository belong to the site.

A folder's README.md links its pages for readers without the site; the site's navigation has them in the same order,
then whatever else lies in the folder. Pages such as CONTRIBUTING.md have a short page in ``docs/project``, which the
site fills with their text, and links to them lead there.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from sphinx.application import Sphinx

from site_pages.docstrings import sections_of_more

DOCS: Final = Path(__file__).parents[1]
ROOT: Final = DOCS.parent

FOLDERS: Final = {  # a folder's README, and pages elsewhere that belong to it
    "how-to/README": (),
    "coming-from/README": (),
    "decisions/README": (),
    "reference/README": ("glossary", "compatibility", "protocol", "storage-format"),
}
FROM_ROOT: Final = {
    "project/contributing": "CONTRIBUTING.md",
    "project/security": "SECURITY.md",
    "project/changelog": "CHANGELOG.md",
}
README_IS: Final = "start.md"  # what the README tells, on the site
COMMANDS: Final = "reference/commands"
MORE: Final = "reference/api-more"

_link = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s]+)(?P<after>[^)]*\))")
_has_scheme = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match


def version_of(pyproject: Path) -> str:
    version: str = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"]
    return version


def complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sphinx read a page: add what only the site has."""
    folder = (DOCS / docname).parent
    text = source[0]
    if docname in FROM_ROOT:
        folder = ROOT
        text = (ROOT / FROM_ROOT[docname]).read_text(encoding="utf-8")
        app.env.note_dependency(str(ROOT / FROM_ROOT[docname]))
    if docname in FOLDERS:
        text += _toctree(docname, text)
    if docname == COMMANDS:
        from site_pages.commands import reference

        text += "\n" + reference()
    if docname == MORE:
        text += sections_of_more()
    source[0] = _with_links_of_the_site(text, docname, folder)


def _toctree(docname: str, text: str) -> str:
    entries = "\n".join(f"/{name}" for name in _pages_of(docname, text))
    return f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{entries}\n```\n"


def _pages_of(docname: str, text: str) -> Iterator[str]:
    folder = PurePosixPath(docname).parent
    first_of_line = filter(None, map(_link.search, text.splitlines()))
    linked = [link["target"].removesuffix(".md") for link in first_of_line]
    lying = sorted(path.stem for path in (DOCS / folder).glob("*.md") if path.stem != "README")
    own = dict.fromkeys([name for name in linked if name in lying] + lying)
    yield from (f"{folder}/{name}" for name in own)
    yield from (name for name in FOLDERS[docname] if (DOCS / f"{name}.md").exists())


def _with_links_of_the_site(text: str, docname: str, folder: Path) -> str:
    """Links as they lead in the repository, turned to where the same page is on the site."""
    homes = {ROOT / path: DOCS / f"{name}.md" for name, path in FROM_ROOT.items()}
    homes[ROOT / "README.md"] = DOCS / README_IS
    here = (DOCS / docname).parent

    def turned(link: re.Match[str]) -> str:
        if _has_scheme(link["target"]):
            return link[0]
        aim = Path(os.path.normpath(folder / link["target"]))
        if (aim / "README.md").exists() and aim.is_relative_to(DOCS):
            aim /= "README.md"
        aim = homes.get(aim, aim)
        return f"{link['before']}{os.path.relpath(aim, here)}{link['after']}"

    return "".join(
        part if number % 2 else _link.sub(turned, part)
        for number, part in enumerate(re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL))
    )
