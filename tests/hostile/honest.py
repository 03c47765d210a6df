"""``python -m tests.hostile.honest NAMESERVER BROKER PID [USER SECRET]``: a client that notes how long it waited.

It asks the name server for a route and sends the broker a message, one after the other, until its standard input ends;
then it prints one line of JSON. A process of its own, so that an attacker's work does not count as a server's stall.
How long the server's loop worked meanwhile depends less than the wall clock on what else runs on the machine.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path
from statistics import median

from pyromq.wire.codes import RequestCode
from pyromq.wire.command import decode_command, encode_request
from pyromq.wire.frame import FrameDecoder
from tests.hostile.rig import signed

PAUSE_S = 0.002


class Server:
    """One server over one connection, opened again when it was cut."""

    def __init__(self, address: str, worked: Path, *credentials: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._worked = worked  # by the kernel's count, in its first field: nanoseconds on a CPU
        self._credentials = credentials
        self._socket: socket.socket | None = None
        self.codes: dict[int, int] = {}
        self.worst_ms = 0.0
        self.cpu_ms: list[float] = []  # of the server's loop, for each request
        self.requests = self.lost = 0

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        began, worked_ms = time.perf_counter(), self._worked_ms()
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, 30)
                self._decoder = FrameDecoder()
            if self._credentials:
                ext = signed(ext, body, *self._credentials)
            self._socket.sendall(encode_request(code, self.requests + 1, ext, body=body))
            frames = []
            while not frames:
                data = self._socket.recv(65536)
                if not data:
                    raise ConnectionError("closed")
                frames = self._decoder.feed(data)
            answered = decode_command(frames[0]).code
            self.codes[answered] = self.codes.get(answered, 0) + 1
        except OSError:
            self.lost += 1
            self._socket = None
        self.requests += 1
        self.worst_ms = max(self.worst_ms, (time.perf_counter() - began) * 1000)
        self.cpu_ms.append(self._worked_ms() - worked_ms)

    def _worked_ms(self) -> float:
        return int(self._worked.read_text().split()[0]) / 1e6


def main() -> None:
    loop, credentials = Path(f"/proc/{sys.argv[3]}/task/{sys.argv[3]}/schedstat"), sys.argv[4:]
    names, broker = (Server(address, loop, *credentials) for address in sys.argv[1:3])
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    route = {"topic": "honest"}
    send = {
        "a": "honest-producer", "b": "honest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    broker.ask(RequestCode.SEND_MESSAGE_V2, send, b"first")  # makes the topic
    broker.worst_ms = 0.0
    broker.cpu_ms.clear()
    print("ready", flush=True)
    while not over.is_set():
        names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
        broker.ask(RequestCode.SEND_MESSAGE_V2, send, b"honest")
        time.sleep(PAUSE_S)
    report = {
        "requests": names.requests + broker.requests,
        "lost": names.lost + broker.lost,
        "nameserver_ms": round(names.worst_ms, 1),
        "broker_ms": round(broker.worst_ms, 1),
        "broker_cpu_ms": round(median(broker.cpu_ms or [0.0]), 1),
        "nameserver_codes": names.codes,
        "broker_codes": broker.codes,
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
