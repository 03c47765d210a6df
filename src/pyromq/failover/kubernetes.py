"""The lease in Kubernetes: a Lease object of coordination.k8s.io/v1, changed with its resourceVersion.

The record is an annotation; holder, transitions and duration are also in the fields where ``kubectl get lease`` shows
them. In a pod the address, the token and the authority come from the service account; the token is read anew for each
request, since Kubernetes replaces it.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pyromq.failover.http_json import Answer, HttpJson
from pyromq.failover.record import LeaseConflictError, LeaseError, LeaseRecord, decode_record
from pyromq.failover.store import StoredLease

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANNOTATION: Final = "pyromq/lease"
_CONFLICTS: Final = (409, 422)


class KubernetesLeaseStore:
    """``server`` and ``namespace`` come from the pod when they are not given."""

    def __init__(self, name: str, *, server: str = "", namespace: str = "", account: Path = ACCOUNT) -> None:
        self._account = account
        self._name = name
        server = server or _server_of_pod()
        namespace = namespace or _text_of(account / "namespace") or "default"
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"
        authority = account / "ca.crt"
        context = ssl.create_default_context(cafile=authority) if authority.exists() else None
        self._http = HttpJson(server, context=context if server.startswith("https") else None)

    async def read(self) -> StoredLease | None:
        answer = await self._ask("GET", f"{self._path}/{quote(self._name)}")
        if answer.status == 404:
            return None
        found = _expect(answer)
        text = found["metadata"].get("annotations", {}).get(_ANNOTATION)
        if text is None:
            raise LeaseError(f"the Lease {self._name} is somebody else's: it has no annotation {_ANNOTATION}")
        return StoredLease(decode_record(text), found["metadata"]["resourceVersion"])

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        body = self._body(record, expected)
        if expected is None:
            answer = await self._ask("POST", self._path, body)
        else:
            answer = await self._ask("PUT", f"{self._path}/{quote(self._name)}", body)
        if answer.status in _CONFLICTS or (answer.status == 404 and expected is not None):
            raise LeaseConflictError("the Lease in Kubernetes has changed")
        return str(_expect(answer)["metadata"]["resourceVersion"])

    async def close(self) -> None:
        """Close nothing: no connection is kept open."""

    def _body(self, record: LeaseRecord, expected: str | None) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self._name, "annotations": {_ANNOTATION: record.encode().decode()}}
        if expected is not None:
            metadata["resourceVersion"] = expected
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, record.duration_ms // 1000),
                "leaseTransitions": record.number,
                "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            },
        }

    async def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        if token := _text_of(self._account / "token"):
            self._http.headers["Authorization"] = f"Bearer {token}"
        return await self._http.ask(method, path, body)


def _server_of_pod() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise LeaseError("this is no pod of Kubernetes: say where its API server is (kubernetes:https://host:port)")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _expect(answer: Answer) -> dict[str, Any]:
    if answer.status not in (200, 201) or not isinstance(answer.body, dict):
        text = answer.body.get("message") if isinstance(answer.body, dict) else answer.body
        raise LeaseError(f"Kubernetes refused: status {answer.status}, {text}")
    return answer.body
