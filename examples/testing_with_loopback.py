"""Test your own code with a real broker in the test's process, and a clock that the test moves.

pytest examples/testing_with_loopback.py
"""

import time

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker, ManualClock


def send_reminder(producer: Producer, customer: str) -> None:  # the code under test
    producer.send(Message("reminders", customer.encode(), delay_ms=24 * 3_600_000))


def test_a_customer_is_reminded_after_a_day() -> None:
    clock = ManualClock(time.time_ns() // 1_000_000)
    reminded: list[str] = []

    def remind(message: ReceivedMessage) -> None:
        reminded.append(message.body.decode())

    with LoopbackBroker(clock=clock) as broker, Producer(broker.nameserver, group="shop") as producer:
        send_reminder(producer, "Ada")
        with Admin(broker.nameserver) as admin:
            assert [message.topic for message in admin.delayed()] == ["reminders"]

        clock.advance_ms(24 * 3_600_000 + 1_000)
        consumer = PushConsumer(broker.nameserver, group="mail", listener=remind, topics="reminders", start="earliest")
        assert consumer.run(messages=1, timeout_ms=30_000) == 1
    assert reminded == ["Ada"]


if __name__ == "__main__":
    test_a_customer_is_reminded_after_a_day()
    print("reminded, without waiting a day")
