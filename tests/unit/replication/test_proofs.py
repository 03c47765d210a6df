"""A replica proves that it knows a secret: once for each challenge, in time, and before its name."""

from __future__ import annotations

from pyromq.replication.introduction import Introduction
from pyromq.replication.proofs import Challenges, prove
from pyromq.testing import ManualClock
from pyromq.wire.transfer import NAMED, PROVEN, SILENT, ReportDecoder, encode_name, encode_proof, encode_report

SECRET = "canary"


def test_a_challenge_is_met_once_and_by_who_knows_the_secret() -> None:
    challenges = Challenges(ManualClock())
    first, second = challenges.issue(SECRET), challenges.issue(SECRET)
    assert first != second and not challenges.is_met(prove("another", first)) and not challenges.is_met(b"")
    assert challenges.is_met(prove(SECRET, second)) and challenges.is_met(prove(SECRET, first))
    assert not challenges.is_met(prove(SECRET, first)), "overheard, and said again"


def test_a_challenge_is_forgotten_after_a_while_and_there_are_not_too_many() -> None:
    clock = ManualClock()
    challenges = Challenges(clock)
    late = challenges.issue(SECRET)
    clock.advance_ms(30_001)
    assert not challenges.is_met(prove(SECRET, late))
    many = [challenges.issue(SECRET) for _ in range(65)]
    assert [challenges.is_met(prove(SECRET, each)) for each in many] == [False] + [True] * 64


def heard(data: bytes) -> tuple[Introduction, list[int]]:
    """What was understood, and the numbers that came behind it."""
    said, numbers = Introduction(), ReportDecoder().feed(data)
    while numbers:
        if said.hear(numbers.pop(0)):
            return said, numbers
    raise AssertionError("not complete")


def test_every_way_to_introduce_oneself_is_understood() -> None:
    proof, position = prove(SECRET, b"c"), encode_report(500)
    plain, rest = heard(position + encode_report(600))
    assert (plain.position, plain.broker_id, plain.proof, rest) == (500, None, b"", [600]), "as RocketMQ's replicas do"
    named, _ = heard(encode_name(3) + position)
    assert (named.position, named.broker_id, named.is_copy) == (500, 3, False)
    copy, _ = heard(encode_proof(proof) + encode_name(255, silent=True) + position)
    assert (copy.position, copy.broker_id, copy.is_copy, copy.proof) == (500, 255, True, proof)


def test_a_name_or_a_proof_that_comes_again_is_no_position_of_anybody() -> None:
    for mark in (NAMED, SILENT):
        said, _ = heard(encode_name(3) + encode_report(mark))
        assert said.position == mark < 0, "which no log has"
    said, _ = heard(encode_proof(bytes(32)) + encode_report(PROVEN))
    assert said.position == PROVEN < 0
