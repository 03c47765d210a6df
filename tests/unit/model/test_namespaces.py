"""Namespaces of topics and groups."""

from __future__ import annotations

import pytest

from pyromq.model.namespaces import unwrap, wrap


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%ns%g", "%DLQ%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_namespaces_are_put_on_and_taken_off(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert wrap("", name) == name
    assert unwrap("ns", wrapped) == name.replace("ns%", "")
