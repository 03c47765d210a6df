"""Ids of a replay."""

from __future__ import annotations

from pyromq.pipeline.jobs.resending.replay import replayed_id


def test_ids_of_replays_follow_from_run_and_place_alone() -> None:
    assert replayed_id("a", "O") == replayed_id("a", "O")
    assert len({replayed_id("a", "O"), replayed_id("b", "O"), replayed_id("a", "P"), replayed_id("aO", "")}) == 4
