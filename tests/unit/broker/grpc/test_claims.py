"""What a call says of itself is verified once, and remembered only while that is small."""

from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.broker.grpc.clients import GrpcClients
from pyromq.net.address import Address


class Guard:
    def __init__(self) -> None:
        self.asked = 0

    def verify_claim(self, claim: object, peer: object) -> object:
        self.asked += 1
        return object()


def call(date_time: bytes) -> Any:
    signed = b"MQv2-HMAC-SHA1 Credential=root, SignedHeaders=x-mq-date-time, Signature=00"
    fields = {b"authorization": signed, b"x-mq-date-time": date_time}
    return SimpleNamespace(fields=fields, peer=Address("127.0.0.1", 1), connection=SimpleNamespace(peer_name=""))


@pytest.mark.parametrize(("size", "asked"), [(16, 1), (4_096, 3)])
def test_a_claim_is_verified_once_unless_it_is_large(size: int, asked: int) -> None:
    clients, guard = GrpcClients(SimpleNamespace()), Guard()  # type: ignore[arg-type]
    access: Any = SimpleNamespace(version=1, guard=guard)
    for _ in range(3):
        clients._principal(access, call(b"2" * size))
    assert guard.asked == asked


def test_another_version_of_the_rules_has_it_verified_again() -> None:
    clients, guard = GrpcClients(SimpleNamespace()), Guard()  # type: ignore[arg-type]
    for version in (1, 1, 2):
        access: Any = SimpleNamespace(version=version, guard=guard)
        clients._principal(access, call(b"20261116T120000Z"))
    assert guard.asked == 2
