"""Reading what faces write: aligned tables, HTML pages, metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from html.parser import HTMLParser

Row = dict[str, str]
Series = dict[str, dict[tuple[tuple[str, str], ...], float]]

_sample = re.compile(r"(\w+)\{(.*?)\} (\S+)").fullmatch
_label = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def table_rows(text: str) -> list[Row]:
    """The rows of an aligned table by the words above them; two blanks stand between columns in every line."""
    lines = text.rstrip("\n").splitlines()
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    is_blank = [all(line[at] == " " for line in padded) for at in range(width)]
    columns, begin = list[tuple[int, int]](), 0
    for at in range(width):
        if at + 1 < width and is_blank[at] and is_blank[at + 1] and not is_blank[begin:at].count(True) == at - begin:
            columns.append((begin, at))
            begin = at
    columns.append((begin, width))
    titles = [padded[0][start:end].strip() for start, end in columns]
    return [
        {title: line[start:end].strip() for title, (start, end) in zip(titles, columns, strict=True) if title}
        for line in padded[1:]
    ]


class Page(HTMLParser):
    """``tables`` are lists of rows by the words above their columns, ``stats`` the figures with their names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[Row]] = []
        self.stats: dict[str, str] = {}
        self.text = ""
        self.links: list[str] = []
        self._titles: list[str] = []
        self._cells: list[str] = []
        self._into: list[str] | None = None
        self._stat = ""
        self._kind = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        self.links += [value for name, value in attrs if name == "href" and value]
        if tag == "table":
            self.tables.append([])
            self._titles = []
        elif tag in ("th", "td"):
            self._into = self._titles if tag == "th" else self._cells
            self._into.append("")
        elif tag == "tr":
            self._cells = []
        elif kind in ("stat-name", "stat-value"):
            self._kind = kind

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self._into = None
        elif tag == "tr" and self._cells and self.tables:
            self.tables[-1].append(
                {title: " ".join(cell.split()) for title, cell in zip(self._titles, self._cells, strict=False)}
            )
        elif tag == "span":
            self._kind = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._into is not None:
            self._into[-1] += data
        elif self._kind == "stat-name":
            self._stat = data.strip()
        elif self._kind == "stat-value":
            self.stats[self._stat] = data.strip()

    def table(self, title: str) -> list[Row]:
        """The table that has such a column."""
        return next(rows for rows in self.tables if rows and any(name.strip() == title for name in rows[0]))


def series_in(text: str) -> Series:
    """Samples by metric and labels."""
    found: defaultdict[str, dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
    for line in text.splitlines():
        if read := _sample(line):
            found[read[1]][tuple(_label.findall(read[2]))] = float(read[3])
    return found
