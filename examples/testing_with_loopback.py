"""Test your own code with a real broker in the test's process, and time that passes when the test says so.

pytest examples/testing_with_loopback.py
"""

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker


def send_reminder(producer: Producer, customer: str) -> None:  # the code under test
    producer.send(Message("reminders", customer.encode(), delay_ms=24 * 3_600_000))


def test_a_customer_is_reminded_after_a_day() -> None:
    reminded: list[str] = []

    def remind(message: ReceivedMessage) -> None:
        reminded.append(message.body.decode())

    with LoopbackBroker(virtual_time=True) as broker, Producer(broker.nameserver, group="shop") as producer:
        send_reminder(producer, "Ada")
        with Admin(broker.nameserver) as admin:
            assert [message.topic for message in admin.delays.list()] == ["reminders"]

        with PushConsumer(broker.nameserver, group="mail", listener=remind, topics="reminders", start="earliest"):
            broker.advance(hours=23, minutes=59)
            assert reminded == []
            broker.advance(minutes=1)
    assert reminded == ["Ada"]


if __name__ == "__main__":
    test_a_customer_is_reminded_after_a_day()
    print("reminded, without waiting a day")
