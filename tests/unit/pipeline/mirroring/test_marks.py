"""Marks of copies, and what a copy keeps."""

from __future__ import annotations

from pyromq.model.queue import QueueId
from pyromq.pipeline.mirroring.marks import MIRRORED_FROM, MirroredFrom, copied_properties, mark_of, mirrored_from

QUEUE = QueueId("orders", "zone:a", 3)


def test_a_mark_is_read_as_it_was_written() -> None:
    found = mirrored_from(mark_of(QUEUE, 1250))
    assert found == MirroredFrom("zone:a", 3, 1250) and found.is_of(QUEUE)
    assert not found.is_of(QueueId("orders", "zone:a", 4))


def test_what_no_mirror_wrote_is_no_mark() -> None:
    assert [mirrored_from(text) for text in (None, "", "a", "a:1", "a:b:1", "a:1:", "a:1:-2")] == [None] * 7


def test_a_copy_keeps_the_applications_properties_and_its_id() -> None:
    given = {
        "colour": "green", "KEYS": "k", "TAGS": "t", "UNIQ_KEY": "ID", "DELAY": "3", "REAL_TOPIC": "x",
        "RETRY_TOPIC": "orders", "MIRRORED_FROM": "elsewhere:0:1",
    }  # fmt: skip
    kept = {"colour": "green", "KEYS": "k", "TAGS": "t", "UNIQ_KEY": "ID", MIRRORED_FROM: "zone:a:3:7"}
    assert copied_properties(given, QUEUE, 7, is_retry=False) == kept
    assert copied_properties(given, QUEUE, 7, is_retry=True) == kept | {"RETRY_TOPIC": "orders"}
