"""What members answer to a direct consumption: Java and PyroMQ with a word, Go with a number."""

from __future__ import annotations

import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.operate.consumers.direct_consumption import DirectOutcome, read_direct_consumption

JAVA = b'{"autoCommit":true,"consumeResult":"CR_THROW_EXCEPTION","order":true,"remark":"boom","spentTimeMills":5}'


def test_the_outcome_of_a_java_member_is_read() -> None:
    told = read_direct_consumption(JAVA, "M", "g", "c")
    assert (told.outcome, told.remark, told.spent_ms, told.is_orderly) == (DirectOutcome.EXCEPTION, "boom", 5, True)
    assert (told.message_id, told.group, told.client_id, told.is_consumed) == ("M", "g", "c", False)


@pytest.mark.parametrize(
    ("result", "outcome", "is_consumed"),
    [
        (b"0", DirectOutcome.SUCCESS, True),
        (b'"CR_SUCCESS"', DirectOutcome.SUCCESS, True),
        (b"1", DirectOutcome.LATER, False),
        (b'"CR_COMMIT"', DirectOutcome.COMMIT, True),
        (b'"CR_RETURN_NULL"', DirectOutcome.NULL, False),
    ],
)
def test_outcomes_are_words_or_numbers(result: bytes, outcome: DirectOutcome, is_consumed: bool) -> None:
    told = read_direct_consumption(b'{"consumeResult":%s,"remark":null}' % result, "M", "g", "c")
    assert (told.outcome, told.is_consumed) == (outcome, is_consumed)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"consumeResult":"CR_MAYBE"}', b'{"consumeResult":17}', b'{"consumeResult":-1}']
)
def test_what_is_no_outcome_is_an_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_direct_consumption(body, "M", "g", "c")
