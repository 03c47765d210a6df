"""Topics for one test, and what was sent to them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from pyromq import Admin, Message, Producer
from pyromq.errors import TopicNotFoundError
from pyromq.model.queue import QueueId


class Topics:
    """``name`` makes names that no other test uses."""

    def __init__(self, nameserver: str, test: str) -> None:
        self.nameserver, self.test = nameserver, re.sub(r"\W+", "-", test)[:80]
        self.admin = Admin(nameserver)
        self.producer = Producer(nameserver, group="writers")
        self.sent: list[str] = []

    def __enter__(self) -> Self:
        self.admin.open()
        self.producer.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.producer.close()
        self.admin.close()

    def name(self, suffix: str = "") -> str:
        return f"{self.test}{suffix}"

    @property
    def group(self) -> str:
        return f"group-{self.test}"

    def make(self, suffix: str = "", queues: int = 2) -> str:
        return self.create(self.name(suffix), queues)

    def create(self, topic: str, queues: int) -> str:
        """Brokers tell name servers of a new topic a moment later."""
        self.admin.topics.create(topic, queues=queues)
        deadline = time.monotonic() + 60
        while not self._is_known(topic, queues):
            assert time.monotonic() < deadline, f"name servers do not hear of {topic}"
            time.sleep(0.01)
        return topic

    def _is_known(self, topic: str, queues: int) -> bool:
        try:
            return len(self.queues(topic)) == queues
        except TopicNotFoundError:
            return False

    def queues(self, topic: str) -> list[QueueId]:
        return self.admin.topics.route(topic).readable_queues(topic)

    def send(self, topic: str, bodies: Sequence[str] | range, queue: int | None = None, **more: Any) -> list[str]:
        """Bodies in turn to the queues of the topic, or all to one."""
        texts = [f"{topic[-4:]}-{body}" if isinstance(body, int) else body for body in bodies]
        queues = self.queues(topic)
        for number, text in enumerate(texts):
            target = queues[number % len(queues) if queue is None else queue]
            self.producer.send(Message(topic, text.encode(), **more), queue=target)
        self.sent += texts
        return texts

    def options(self, topic: str, **more: object) -> dict[str, str]:
        given = {"nameserver": self.nameserver, "topic": topic, **more}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    def committed(self, topic: str, group: str = "") -> dict[int, int | None]:
        return {queue.number: self.admin.offsets.committed(group or self.group, queue) for queue in self.queues(topic)}


def bodies(rows: Sequence[Any]) -> Counter[str]:
    return Counter(bytes(row["body"]).decode() for row in rows)
