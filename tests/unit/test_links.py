"""Links lead somewhere, and lists of pages, decisions and folders are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release.rooms import page_with_rooms
from tests.unit.test_docs import blocks_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FOLDERS = sorted(path.parent for path in ROOT.glob("docs/*/README.md"))  # their README.md lists their pages
ROOMS = sorted({path.parent for path in ROOT.glob("src/pyromq/*/**/*.py") if path.parent.name != "__pycache__"})
STATUS = re.compile(r"(accepted|rejected|superseded by \[\d+\]\([^)]+\))(; .+)?")

_code_span = re.compile(r"(`+)(?!`)(?P<code>.*?)(?<!`)\1(?!`)")
_link = re.compile(r"""\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)|(?:src|href)="(?P<attribute>[^"]+)\"""")
_heading = re.compile(r"#{1,6} +(?P<text>.+?)(?: +#+)?$")
_has_scheme = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match
_path_in_repository = re.compile(r"(src|tests|docs|interop|benchmarks|examples)/[\w./-]+")


def prose_of(text: str) -> list[str]:
    """The lines outside of fenced blocks, code spans blanked."""
    return [_code_span.sub("", line) for line in _lines_outside_blocks(text)]


def links_of(text: str) -> list[tuple[int, str]]:
    """Line and target of every link and picture."""
    return [
        (number, link["target"] or link["attribute"])
        for number, line in enumerate(prose_of(text), 1)
        for link in _link.finditer(line)
    ]


def anchors_of(text: str) -> set[str]:
    """What ``#…`` may name on a page, as GitHub makes it of headings."""
    anchors: set[str] = set()
    for line in _lines_outside_blocks(text):
        if heading := _heading.fullmatch(line):
            shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"])
            slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
            repeats = sum(1 for anchor in anchors if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", anchor))
            anchors.add(f"{slug}-{repeats}" if repeats else slug)
    return anchors


def _lines_outside_blocks(text: str) -> list[str]:
    inside = {block.line + at for block in blocks_of(text) for at in range(block.code.count("\n") + 1)}
    return ["" if number in inside else line for number, line in enumerate(text.splitlines(), 1)]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_and_anchors_resolve(page: Path) -> None:
    broken = [
        f"line {number}: {target}"
        for number, target in links_of(_read(page))
        if not _has_scheme(target) and not _leads_somewhere(page, target)
    ]
    assert not broken, "links that lead nowhere"


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    aim = (page.parent / path).resolve() if path else page
    if not aim.exists() or not aim.is_relative_to(ROOT):
        return False
    return not anchor or aim.suffix != ".md" or anchor in anchors_of(_read(aim))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/reliability.md"])
def test_files_that_a_page_names_exist(name: str) -> None:
    spans = [span["code"] for line in _lines_outside_blocks(_read(ROOT / name)) for span in _code_span.finditer(line)]
    named = [span for span in spans if _path_in_repository.fullmatch(span)]
    assert [path for path in named if not (ROOT / path).exists()] == []


# --- lists are complete --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_a_folder_lists_all_its_pages_once(folder: Path) -> None:
    linked = [target for _, target in links_of(_read(folder / "README.md"))]
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert pages - set(linked) == set(), f"pages that {_name(folder)}/README.md does not name"


def test_every_decision_has_its_line_with_number_and_status() -> None:
    folder = ROOT / "docs/decisions"
    lines = [line for line in _read(folder / "README.md").splitlines() if re.match(r"\| \d", line)]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    files = sorted(path.name for path in folder.glob("0*.md"))
    assert [(int(row[0]), links_of(row[1])[0][1]) for row in rows] == [(int(name[:4]), name) for name in files]
    assert [row for row in rows if not STATUS.fullmatch(row[2])] == [], "accepted, rejected, or superseded by another"


def test_the_table_of_rooms_in_contributing_is_what_the_packages_say() -> None:
    """``make rooms`` writes it, from the first line of each package's docstring."""
    text = _read(ROOT / "CONTRIBUTING.md")
    assert text == page_with_rooms(text)
    listed = re.findall(r"^\| `([\w/]+)` \|", text, re.MULTILINE)
    rooms = [path.relative_to(ROOT / "src/pyromq").as_posix() for path in ROOMS]
    assert sorted(name for name in listed if not (ROOT / name).is_dir()) == sorted(rooms)


# --- this file reads pages as it says ------------------------------------------------------------------------------


def test_links_in_code_are_no_links() -> None:
    text = '`[a](b.md)` and [c](d.md)\n\n```\n[e](f.md)\n```\n[g](h.md)\n<img src="i.svg">\n'
    assert links_of(text) == [(1, "d.md"), (6, "h.md"), (7, "i.svg")]


def test_anchors_are_those_of_headings() -> None:
    text = "# Routes, strict and lenient\n## Limits\n```\n# no heading\n```\n## Limits\n### `abort`\n## See [a](b.md)\n"
    assert anchors_of(text) == {"routes-strict-and-lenient", "limits", "limits-1", "abort", "see-a"}
