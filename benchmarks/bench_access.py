"""What access control and TLS cost a broker: CPU of its process for each send and each pull, with and without.

    python -m benchmarks.bench_access [--seconds 2] [--without-tls] [--turns 8]

One connection, requests pipelined in windows; bodies of 1 KiB, pulls of 32 messages, flush async. The requests are
signed beforehand, so that only the broker is measured; signed requests are sent to all, so all read the same bytes.
Brokers without the compiled core and, where it is installed, with it stand side by side; their runs take turns, and the
best of each counts. The last line is the floor: what the hash functions alone take for the same requests.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pyromq.compiled_core import SWITCH, core
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import decode_command, encode_request
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, SigningKey, sign

_SECRET: Final = "benchmark-secret"
_WINDOW: Final = 200
_BODY: Final = b"x" * 1024
_GUARDED: Final = (
    *("--set", "broker.access.enabled=true", "--set", "nameserver.access.enabled=true"),
    *("--set", f'broker.access.initial_user={{"username":"root","password":"{_SECRET}"}}'),
    *("--set", f'nameserver.access.initial_user={{"username":"root","password":"{_SECRET}"}}'),
    *("--set", f'broker.access.inner_credentials={{"accessKey":"root","secretKey":"{_SECRET}"}}'),
)

_PERMISSIVE: Final = "broker.tls_mode=permissive"  # plain to the name server of the same process


class Server:
    """``pyromq up`` in a folder of its own."""

    def __init__(self, folder: str, *flags: str, is_pure: bool) -> None:
        environment = {SWITCH: "1" if is_pure else ""}
        self.process = ServerProcess("up", "--flush", "async", *flags, data=folder, env=environment)
        self.process.start()
        host, _, port = self.process.broker.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        if _PERMISSIVE in flags:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # of our own, a moment old
            self.socket = context.wrap_socket(self.socket)
        self._decoder = FrameDecoder()

    def cpu_s(self) -> float:
        """Of all threads, to the nanosecond: ticks are too coarse for short runs."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def ask(self, frames: bytes, count: int) -> None:
        self.socket.sendall(frames)
        while count:
            for frame in self._decoder.feed(self.socket.recv(1 << 20)):
                response = decode_command(frame) if count == 1 else None
                assert response is None or response.code == 0, response
                count -= 1

    def stop(self) -> None:
        self.socket.close()
        self.process.stop()


def send_frame(number: int) -> bytes:
    ext = {
        **{
            "a": "bench",
            "b": "BenchmarkTest",
            "c": "TBW102",
            "d": "4",
            "e": str(number % 8),
            "f": "0",
            "g": "1700000000000",
        },
        **{"h": "0", "i": f"UNIQ_KEY\x017F0000010000{number:016d}\x02WAIT\x01true\x02", "j": "0", "k": "false"},
        **{"m": "false", "n": "broker-a"},
    }
    return signed(RequestCode.SEND_MESSAGE_V2, number, ext, _BODY)


def pull_frame(number: int) -> bytes:
    ext = {
        **{"consumerGroup": "bench", "topic": "BenchmarkTest", "queueId": str(number % 8), "queueOffset": "0"},
        **{"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"},
        **{"subscription": "*", "subVersion": "0", "expressionType": "TAG"},
    }
    return signed(RequestCode.PULL_MESSAGE, number, ext, b"")


def signed(code: RequestCode, number: int, ext: dict[str, str], body: bytes) -> bytes:
    ext = {**ext, ACCESS_KEY: "root"}
    return encode_request(code, number, {**ext, SIGNATURE: sign(ext, body, _SECRET)}, body=body)


def measured_us(server: Server, window: bytes, seconds: float) -> float:
    """CPU of the server for one request."""
    server.ask(window, _WINDOW)
    began, cpu, count = time.monotonic(), server.cpu_s(), 0
    while time.monotonic() - began < seconds:
        server.ask(window, _WINDOW)
        count += _WINDOW
    return (server.cpu_s() - cpu) / count * 1e6


def floor_us(body: bytes, fields: bytes) -> float:
    """Of one HMAC-SHA1, by OpenSSL through Python."""
    key, best = SigningKey(_SECRET), float("inf")
    for _ in range(30):
        began = time.thread_time()
        for _ in range(1_000):
            key.sign(fields, body)
        best = min(best, (time.thread_time() - began) * 1e3)
    return best


def measure(servers: dict[str, Server], window: bytes, seconds: float, turns: int) -> dict[str, float]:
    best = dict.fromkeys(servers, float("inf"))
    for _ in range(turns):
        for name, server in servers.items():
            best[name] = min(best[name], measured_us(server, window, seconds / turns))
    return best


def show(kind: str, best: dict[str, float]) -> None:
    for mode in ("pure", "core"):
        own = {name.partition(" ")[2]: us for name, us in best.items() if name.startswith(mode)}
        if own:
            shown = [f"{name} {us:.2f} µs ({us / own['open'] - 1:+.1%})" for name, us in own.items()]
            print(f"{kind}, {mode}: {', '.join(shown)} of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement")
    parser.add_argument("--turns", type=int, default=8, help="in which each is divided")
    parser.add_argument("--without-tls", action="store_true", help="only what access control costs")
    given = parser.parse_args()
    sends = b"".join(send_frame(number) for number in range(_WINDOW))
    pulls = b"".join(pull_frame(number) for number in range(_WINDOW))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pyromq", "tls", "init", f"{folder}/tls"], check=True, capture_output=True
        )
        tls = ("--set", _PERMISSIVE, "--set", f"broker.tls_certificate_file={folder}/tls/server.pem")
        tls += ("--set", f"broker.tls_key_file={folder}/tls/server-key.pem")
        flags: dict[str, tuple[str, ...]] = {"open": (), "guarded": _GUARDED}
        if not given.without_tls:
            flags |= {"TLS": tls, "both": (*_GUARDED, *tls)}
        servers = {
            f"{mode} {name}": Server(f"{folder}/{mode}-{name}", *each, is_pure=mode == "pure")
            for mode in (("pure", "core") if core is not None else ("pure",))
            for name, each in flags.items()
        }
        try:
            for kind, window in (("send of 1 KiB", sends), ("pull of 32 × 1 KiB", pulls)):
                show(kind, measure(servers, window, given.seconds, given.turns))
        finally:
            for server in servers.values():
                server.stop()
    fields = b"x" * 110
    print(
        f"HMAC-SHA1 alone: {floor_us(_BODY, fields):.2f} µs for a send, {floor_us(b'', fields[:60]):.2f} µs for a pull"
    )


if __name__ == "__main__":
    main()
