"""Tables that the server searches, sorts and cuts into pages: what the query string says, and links that change it.

rows are names only  ─▶  searched  ─▶  sorted  ─▶  one page of them  ─▶  and now the costly columns
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from pyromq.operate.lists import ListQuestion, ListSort

T = TypeVar("T")
U = TypeVar("U")
SIZES: Final = (25, 50, 100, 250)
LISTED_MS: Final = 2_000  # how old lists may be
_SEARCH_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """``page`` counts from 1; ``kept`` are other fields of the query that links carry on."""

    page: int = 1
    size: int = SIZES[1]
    sort: str = ""
    descending: bool = False
    search: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, query: Mapping[str, str], *, sorts: Sequence[str], kept: Sequence[str] = ()) -> TableQuery:
        """What cannot be read means the default: links are shared and cut short. ``sorts[0]`` is the default."""
        wanted = query.get("sort", "")
        return cls(
            page=_number(query.get("page"), 1, 1_000_000),
            size=found if (found := _number(query.get("size"), SIZES[1], SIZES[-1])) in SIZES else SIZES[1],
            sort=wanted if wanted in sorts else sorts[0],
            descending=query.get("order") == "desc",
            search=query.get("q", "").strip()[:_SEARCH_CHARACTERS_MAX],
            kept={name: query[name] for name in kept if query.get(name)},
        )

    def found(self, names: Sequence[str]) -> list[str]:
        """Those that contain what is searched, whatever its case."""
        needle = self.search.casefold()
        return [name for name in names if needle in name.casefold()] if needle else list(names)

    def cut(self, rows: Sequence[T]) -> TablePage[T]:
        """The rows of this page; of the last one if there are fewer."""
        pages = max(1, -(-len(rows) // self.size))
        page = min(self.page, pages)
        begin = (page - 1) * self.size
        return TablePage(list(rows[begin : begin + self.size]), len(rows), replace(self, page=page))

    def question(self, **more: Any) -> ListQuestion:
        """Return the question for ``operate.lists``, which searches, sorts and cuts."""
        return ListQuestion(
            pattern=self.search,
            sort=ListSort(self.sort),
            descending=self.descending,
            skip=(self.page - 1) * self.size,
            limit=self.size,
            max_age_ms=LISTED_MS,
            **more,
        )

    def page_of(self, rows: Sequence[T], found: int, skip: int) -> TablePage[T]:
        """The page that answers ``question``: the last one if there are fewer rows."""
        return TablePage(list(rows), found, replace(self, page=skip // self.size + 1))

    def href(self, **changes: Any) -> str:
        """The query string of this table with something changed; a new search or sorting begins at page 1."""
        changed = replace(self, **{**({} if "page" in changes else {"page": 1}), **changes})
        values = {
            **changed.kept,
            "q": changed.search,
            "sort": changed.sort,
            "order": "desc" if changed.descending else "",
            "size": changed.size if changed.size != SIZES[1] else "",
            "page": changed.page if changed.page > 1 else "",
        }
        return "?" + urlencode({name: value for name, value in values.items() if value != ""})

    def sort_href(self, column: str) -> str:
        """Link of a heading: sorts by it, and the other way round when it is sorted by it already."""
        return self.href(sort=column, descending=self.sort == column and not self.descending)

    def keeping(self, name: str, value: str) -> str:
        """A link with another field of the query, such as a filter."""
        return self.href(kept={**{key: each for key, each in self.kept.items() if key != name}, name: value})


@dataclass(frozen=True, slots=True)
class TablePage(Generic[T]):
    """Rows of one page, how many there are in all, and the query they answer."""

    rows: list[T]
    total: int
    query: TableQuery

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.query.size))

    @property
    def first(self) -> int:
        """Number of its first row, from 1; 0 if there is none."""
        return (self.query.page - 1) * self.query.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0

    def with_rows(self, rows: Sequence[U]) -> TablePage[U]:
        """The costly columns, of this page only."""
        return TablePage(list(rows), self.total, self.query)


def sorted_by(rows: Sequence[T], query: TableQuery, keys: Mapping[str, Callable[[T], Any]]) -> list[T]:
    return sorted(rows, key=keys[query.sort], reverse=query.descending)


def _number(text: str | None, default: int, most: int) -> int:
    return min(int(text[:9]), most) if text and text.isascii() and text.isdigit() and int(text[:9]) else default
