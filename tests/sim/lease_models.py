"""Models of lease stores: what etcd's gateway and PostgreSQL answer to the statements that PyroMQ has for them.

``EtcdLeaseStore`` and ``PostgresLeaseStore`` run as they are: the first one's HTTP, the second one's driver are
replaced. ``tests/integration/test_lease_stores.py`` says the same of the models and of real servers.
"""

from __future__ import annotations

import copy
from typing import Any


class EtcdModel:
    """One key-value space with revisions: ranges of single keys, and transactions that compare a revision."""

    def __init__(self) -> None:
        self.revision = 1
        self.values: dict[str, tuple[str, int]] = {}

    def ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and body of a response."""
        if method != "POST":
            return 405, {"message": "Method Not Allowed"}
        if path == "/v3/kv/range":
            return 200, self._range(body["key"])
        if path == "/v3/kv/txn":
            return 200, self._transaction(body)
        return 404, {"message": "Not Found"}

    def _range(self, key: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"header": {"revision": str(self.revision)}}
        if key in self.values:
            value, revision = self.values[key]
            answer["kvs"] = [{"key": key, "value": value, "mod_revision": str(revision)}]
            answer["count"] = "1"
        return answer

    def _transaction(self, body: dict[str, Any]) -> dict[str, Any]:
        is_met = all(self.values.get(each["key"], ("", 0))[1] == int(each["mod_revision"]) for each in body["compare"])
        if is_met and body["success"]:
            self.revision += 1
            for each in body["success"]:
                put = each["request_put"]
                self.values[put["key"]] = put["value"], self.revision
        answer: dict[str, Any] = {"header": {"revision": str(self.revision)}}
        if is_met:
            answer["succeeded"] = True  # JSON of protocol buffers leaves out what is false
        return answer

    def snapshot(self) -> Any:
        return copy.deepcopy((self.revision, self.values))

    def restore(self, snapshot: Any) -> None:
        self.revision, self.values = copy.deepcopy(snapshot)

    def clear(self) -> None:
        """As after ``etcdctl del``: revisions go on."""
        self.revision += 1
        self.values = {}

    def text(self) -> list[str]:
        return [value for value, _ in self.values.values()]


class PostgresModel:
    """The table of leases: rows by name, with version and record."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, str]] = {}

    def execute(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first row of the result."""
        words = statement.split()
        if words[0] == "CREATE":
            return None
        if words[0] == "SELECT":
            found = self.rows.get(values[0])
            return None if found is None else (found[1], found[0])
        if words[0] == "INSERT":
            name, record = values
            if name in self.rows:
                return None
            self.rows[name] = 1, record
            return (1,)
        if words[0] == "UPDATE":
            record, name, version = values
            if self.rows.get(name, (0, ""))[0] != version:
                return None
            self.rows[name] = version + 1, record
            return (version + 1,)
        raise NotImplementedError(statement)

    def snapshot(self) -> Any:
        return dict(self.rows)

    def restore(self, snapshot: Any) -> None:
        self.rows = dict(snapshot)

    def clear(self) -> None:
        self.rows = {}

    def text(self) -> list[str]:
        return [record for _, record in self.rows.values()]
