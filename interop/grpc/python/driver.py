"""The official Python client, driven by lines of JSON: see interop/grpc/clients.py for the words. Plain text."""

import json
import os
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

running, received, listeners = {}, {}, {}


def configuration(asked):
    return ClientConfiguration(asked["endpoint"], Credentials(), request_timeout=20)


def expression(asked):
    return FilterExpression(asked["expression"], FilterType.SQL if asked["sql"] else FilterType.TAG)


class Checker(TransactionChecker):
    def check(self, message):
        body = message.body.decode()
        if body.endswith("commit"):
            return TransactionResolution.COMMIT
        return TransactionResolution.ROLLBACK if body.endswith("rollback") else TransactionResolution.UNKNOWN


class Listener(MessageListener):
    def __init__(self, failures):
        self.failures, self.seen, self._times, self._lock = failures, [], {}, threading.Lock()

    def consume(self, message):
        found = shown(message)
        with self._lock:
            self.seen.append(found)
            time_now = self._times[found["body"]] = self._times.get(found["body"], 0) + 1
        return ConsumeResult.FAILURE if time_now <= self.failures.get(found["body"], 0) else ConsumeResult.SUCCESS


def shown(message):
    return {
        "id": message.message_id,
        "body": message.body.decode(),
        "tag": message.tag or "",
        "keys": list(message.keys or []),
        "properties": dict(message.properties or {}),
        "attempt": message.delivery_attempt,
        "group": message.message_group or "",
    }


def message_of(asked):
    message = Message()
    message.topic, message.body = asked["topic"], asked["body"].encode()
    if "tag" in asked:
        message.tag = asked["tag"]
    for key in asked.get("keys", ()):
        message.keys = key
    for key, value in asked.get("properties", {}).items():
        message.add_property(key, value)
    if "group" in asked:
        message.message_group = asked["group"]
    if "deliverAtMs" in asked:
        message.delivery_timestamp = -(-asked["deliverAtMs"] // 1000)
    if "priority" in asked:
        message.priority = asked["priority"]
    return message


def started(name, client):
    client.startup()
    running[name] = client


def start_producer(asked):
    started(asked["name"], Producer(configuration(asked), tuple(asked["topics"]), Checker()))


def send(asked):
    sent = running[asked["name"]].send(message_of(asked["message"]))
    return {"id": sent.message_id, "handle": sent.recall_handle}


def transaction(asked):
    producer = running[asked["name"]]
    begun = producer.begin_transaction()
    sent = producer.send(message_of(asked["message"]), begun)
    if asked["ending"] == "commit":
        begun.commit()
    elif asked["ending"] == "rollback":
        begun.rollback()
    return {"id": sent.message_id}


def recall(asked):
    running[asked["name"]].recall_message(asked["topic"], asked["handle"])


def start_simple(asked):
    wait_s = asked["waitMs"] // 1000
    consumer = SimpleConsumer(configuration(asked), asked["group"], {asked["topic"]: expression(asked)}, wait_s)
    started(asked["name"], consumer)


def receive(asked):
    views = running[asked["name"]].receive(asked["count"], asked["invisibleMs"] // 1000) or []
    received.update((view.message_id, view) for view in views)
    return [shown(view) for view in views]


def ack(asked):
    running[asked["name"]].ack(received[asked["id"]])


def change(asked):
    running[asked["name"]].change_invisible_duration(received[asked["id"]], asked["invisibleMs"] // 1000)


def start_push(asked):
    listener = listeners[asked["name"]] = Listener(asked["failures"])
    subscription = {asked["topic"]: expression(asked)}
    started(asked["name"], PushConsumer(configuration(asked), asked["group"], listener, subscription))


def wait(asked):
    seen, end = listeners[asked["name"]].seen, time.monotonic() + asked["timeoutMs"] / 1000
    while len(seen) < asked["count"] and time.monotonic() < end:
        time.sleep(0.05)
    return list(seen)


def stop(asked):
    running.pop(asked["name"]).shutdown()


OPS = {
    "producer.start": start_producer,
    "producer.send": send,
    "producer.transaction": transaction,
    "producer.recall": recall,
    "simple.start": start_simple,
    "simple.receive": receive,
    "simple.ack": ack,
    "simple.change": change,
    "push.start": start_push,
    "push.wait": wait,
}


def main():
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the client prints is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"ok": OPS.get(asked["op"], stop)(asked)}
        except Exception as error:
            code = getattr(error, "code", None)
            known = code if isinstance(code, int) else None  # grpcio has a method of this name
            facts = {"type": type(error).__name__, "message": str(error), "code": known}
            answer = {"error": facts}
        print(json.dumps(answer), file=out)
    os._exit(0)


main()
