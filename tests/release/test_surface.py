"""Public names change when somebody means it: recorded with ``make surface``, told in the changelog when they go."""

from __future__ import annotations

import pytest

from release.surface import recorded, surface, unreported


@pytest.mark.filterwarnings("ignore")  # some optional packages warn when they are imported
def test_the_public_surface_is_the_recorded_one() -> None:
    now, before = set(surface()), set(recorded())
    changed = [f"+ {line}" for line in sorted(now - before)] + [f"- {line}" for line in sorted(before - now)]
    assert not changed, "\n".join(["public names changed: run make surface and tell it in CHANGELOG.md", *changed])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("python pyromq.Producer.send(message, timeout)", "`Producer.send` waits longer"),
        ("python pyromq.Admin", "`Admin` is made of facets"),
        ("python pyromq.Admin.create_topic(topic)", "the flat names `Admin.*` are gone"),
        ("cli pyromq topic ls --all", "`topic ls --all` lists everything"),
        ("cli pyromq group lag", "`pyromq group lag` has a new column"),
        ("http GET /api/v1/topics", "`/topics` has another order"),
        ("setting broker.store.flush", "`store.flush`"),
        ("metric pyromq_lag{group}", "`pyromq_lag` counts what is parked"),
    ],
)
def test_a_change_is_told_by_its_name(line: str, told: str) -> None:
    assert unreported([line], f"# Changelog\n## Unreleased\n- {told}\n## 0.1.0\n") == []
    assert unreported([line], f"# Changelog\n## Unreleased\n- nothing\n## 0.1.0\n- {told}\n") == [line], (
        "that was long ago"
    )


def test_the_surface_has_all_five_kinds() -> None:
    assert {line.split(" ", 1)[0] for line in recorded()} == {"python", "cli", "http", "setting", "metric"}
