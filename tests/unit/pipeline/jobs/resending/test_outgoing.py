"""Outgoing copies of stored messages."""

from __future__ import annotations

from pyromq.model import property_names as names
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Outgoing
from pyromq.pipeline.jobs.resending.outgoing import outgoing
from tests.unit.pipeline.jobs.resending.rows import row


def test_a_message_keeps_what_is_the_applications_and_gets_a_derived_id() -> None:
    made = outgoing(row(), "orders", "ID", [("MARK", "1")])
    assert isinstance(made, Outgoing)
    assert dict(made.properties) == {
        names.UNIQUE_KEY: "ID", "MARK": "1", names.KEYS: "k", names.TAGS: "t", names.SHARDING_KEY: "s",
        "colour": "green",
    }  # fmt: skip
    assert made.sharding_key == "s" and made.flag == 7


def test_a_mark_of_an_earlier_time_is_replaced() -> None:
    properties = {"MARK": "old"}
    made = outgoing(row(properties=properties), "orders", "ID", [("MARK", "new")])
    assert isinstance(made, Outgoing) and dict(made.properties)["MARK"] == "new"


def test_what_has_no_body_is_not_sent() -> None:
    for body, reason in ((None, "decompressed"), (b"", "empty")):
        made = outgoing(row(body=body), "orders", "ID", [])
        assert isinstance(made, ItemOutcome) and made.status is ItemStatus.FAILED and reason in made.error
