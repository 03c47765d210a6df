"""Send-back policy: in which forms a failed message goes back to a broker, the best one first. Pure.

    failed                        send-back (36), else a copy
      broker takes no stories     a copy with the story, else send-back        Apache's brokers have no field for it
      no body that can be sent    send-back alone                              the broker has it
    dead letter with a reason     a copy with the reason, else send-back with level −1
    too often, orderly            a copy alone                               the broker knows the group by its locks

Listeners, App, task frameworks and rows of Spark go by it. Two carriers (``base.send_back``) do what it says: that of
consumers takes a copy to any broker of the retry topic, that of Spark to the broker of the row. ``retry_copy`` says
what is in a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from pyromq.client.consumer.rules.outcome import BROKER_CHOOSES, DEAD_LETTER_LEVEL, NO_REASON
from pyromq.client.consumer.rules.retry_copy import FailedMessage, copy_level
from pyromq.model import property_names as names
from pyromq.typed.body_errors import one_line

LETTER_REASON_CHARACTERS_MAX: Final = 1_000
_NO_FACTS: Final[Mapping[str, str]] = {}
_WITHOUT_MARKS: Final = str.maketrans({names.NAME_END: " ", names.ITEM_END: " "})


class SendBackForm(Enum):
    """How a failed message travels."""

    SEND_BACK = "request 36, which names the stored message"
    COPY = "a send to the group's retry topic"


class Step(NamedTuple):
    """One attempt to hand a message back; the next one follows if no broker takes it."""

    form: SendBackForm
    delay_level: int  # of a send-back as in its header; of a copy 0 for none
    attempts_max: int | None = None  # of a copy: with more attempts it is a dead letter; None: as the group has it
    facts: Mapping[str, str] = _NO_FACTS  # properties that a copy gets
    own_first: bool = False  # a copy in place of a send-back: to the broker that has the message, if it takes it


class Fate(NamedTuple):
    """What shall become of a failed message."""

    delay_level: int = BROKER_CHOOSES  # below 0: a dead letter
    facts: Mapping[str, str] = _NO_FACTS  # of a dead letter: why, as properties
    is_orderly: bool = False  # an orderly consumer gives it up


def letter_facts(reason: str, stage: str, more: Mapping[str, str] = _NO_FACTS) -> dict[str, str]:
    """Return the properties that say why a message is a dead letter, and where on its way that was found."""
    text = one_line(reason.translate(_WITHOUT_MARKS).strip(), LETTER_REASON_CHARACTERS_MAX - 1)
    return {names.DLQ_ERROR: text or NO_REASON, names.DLQ_STAGE: stage, **more}


def send_back_steps(
    message: FailedMessage, fate: Fate, attempts_max: int | None, *, takes_story: bool, has_body: bool = True
) -> tuple[Step, ...]:
    """Return the steps for one message; ``attempts_max`` is the group's, None as the broker knows it.

    ``takes_story``: the message has none to say, or its broker takes it with a send-back.
    """
    attempt, level = message.delivery_attempt, fate.delay_level
    if fate.facts:  # one attempt more than it may have
        return Step(SendBackForm.COPY, 0, attempt, fate.facts), Step(SendBackForm.SEND_BACK, DEAD_LETTER_LEVEL)
    copy = Step(SendBackForm.COPY, copy_level(level, attempt), attempt if level < 0 else attempts_max)
    if fate.is_orderly:
        return (copy,)
    send_back = Step(SendBackForm.SEND_BACK, level)
    if not has_body:
        return (send_back,)
    return (send_back, copy) if takes_story else (copy._replace(own_first=True), send_back)
