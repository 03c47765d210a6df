"""The console as a process: by itself, and beside ``pyromq up``, whose end is its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from pyromq.testing import ServerProcess

pytestmark = pytest.mark.integration

WAIT_S = 60
PASSWORD = "the password of these tests"
TOKEN = "t" * 40
CONSOLE = [sys.executable, "-m", "pyromq", "console"]
UP = [sys.executable, "-m", "pyromq", "up", "--nameserver-port", "0", "--broker-port", "0", "--console"]


def running(*words: str, **environment: str) -> ServerProcess:
    return ServerProcess(*words, env={"PYROMQ_CONSOLE_TOKEN": TOKEN, **environment})


def url_of(server: ServerProcess) -> str:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.addresses["console"])
    return server.addresses["console"]


def until_gone(url: str) -> None:
    """Nobody listens there any more; waits for it."""
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            with socket.create_connection(address, 1):
                time.sleep(0.05)
        except OSError:
            return
    pytest.fail(f"{url} is still served")


def children_of(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(path.parent.name))
    return found


def sign_in(url: str, password: str) -> int:
    form = {"name": "admin", "password": password}
    return httpx.post(f"{url}/login", data=form, headers={"Origin": url}, timeout=WAIT_S).status_code


def test_it_says_where_it_is_and_stops_cleanly(tmp_path: Path) -> None:
    with running("console", "-n", "127.0.0.1:1", "--data", str(tmp_path / "c")) as server:
        url = url_of(server)
        assert server.output.startswith("console=")
        password = server.wait_for(r"sign in as admin with the password (\S+) \(shown this once")
        assert sign_in(url, password[1]) == 303
        response = httpx.get(f"{url}/api/v1/cluster", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=WAIT_S)
        assert response.status_code == 200, "a cluster that does not answer is shown as that"
        assert "no name server answered" in response.json()["problem"]
        assert "server" not in response.headers
        assert server.stop() == 0
    assert password[1] not in (tmp_path / "c" / "accounts.json").read_text()


def test_a_forgotten_password_is_replaced(tmp_path: Path) -> None:
    reset = [*CONSOLE, "--data", str(tmp_path), "--reset-password"]
    first, second = (subprocess.run(reset, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2))
    assert first != second
    with running("console", "-n", "127.0.0.1:1", "--data", str(tmp_path)) as server:
        assert sign_in(url_of(server), first) == 403
        assert sign_in(url_of(server), second) == 303


def test_a_reset_password_ends_sessions_and_a_revoked_token_is_refused_by_every_console(tmp_path: Path) -> None:
    words = ("console", "-n", "127.0.0.1:1", "--data", str(tmp_path))
    reset = [*CONSOLE, "--data", str(tmp_path), "--reset-password"]
    first = subprocess.run(reset, capture_output=True, text=True, check=True).stdout.strip()
    with running(*words) as server, running(*words) as other_server, httpx.Client(timeout=WAIT_S) as browser:
        url, other = url_of(server), url_of(other_server)
        form = {"name": "admin", "password": first}
        assert browser.post(f"{url}/login", data=form, headers={"Origin": url}).status_code == 303
        page = browser.get(f"{url}/access")
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
        assert page.status_code == 200 and csrf, page.text[:2000]

        def post(path: str, **fields: str) -> httpx.Response:
            headers = {"Origin": url}
            return browser.post(
                f"{url}{path}", data={"csrf": csrf[1], **fields}, headers=headers, follow_redirects=True
            )

        made = post("/access/tokens", name="deploys", role="read-only")
        token = re.search(r"pmq_[\w-]+", made.text)
        assert token, made.text[:2000]

        def asked(console: str) -> int:
            headers = {"Authorization": f"Bearer {token[0]}"}
            return httpx.get(f"{console}/api/v1/cluster", headers=headers, timeout=WAIT_S).status_code

        assert (asked(url), asked(other)) == (200, 200)
        assert post("/access/tokens/revoke", name="deploys").status_code == 200
        assert (asked(url), asked(other)) == (401, 401)
        subprocess.run(reset, capture_output=True, text=True, check=True)
        assert browser.get(f"{url}/access").status_code != 200, "whoever had the old password is out"


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for command in ([*CONSOLE, "--port", port], [*UP, "--data", str(tmp_path / "d"), "--console-port", port]):
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
            assert ended.returncode == 1
            assert f"port {port} on 127.0.0.1 cannot be used" in ended.stderr
            assert "Traceback" not in ended.stderr
    assert not (tmp_path / "d").exists(), "nothing was started"


def test_up_starts_it_and_names_it_in_the_ready_line(tmp_path: Path) -> None:
    with running("up", "--console", PYROMQ_CONSOLE_PASSWORD=PASSWORD) as server:
        assert re.fullmatch(r"ready nameserver=\S+ broker=\S+ grpc=\S+ metrics=\S+ console=\S+\n", server.output)
        url = url_of(server)
        assert sign_in(url, PASSWORD) == 303
        headers = {"Authorization": f"Bearer {TOKEN}"}
        made = httpx.post(f"{url}/api/v1/topics", json={"name": "orders"}, headers=headers, timeout=WAIT_S)
        assert made.status_code == 201
        sent = httpx.post(f"{url}/api/v1/topics/orders/messages", json={"body": "1"}, headers=headers, timeout=WAIT_S)
        assert sent.json()["confirmed"] == 1
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        until_gone(url)
        told = server.log
        assert "Traceback" not in told and "the console ended" not in told, told


def test_up_and_its_console_log_in_the_same_format(tmp_path: Path) -> None:
    variables = {"PYROMQ_CONSOLE_PASSWORD": PASSWORD, "PYROMQ_LOG_FORMAT": "json"}
    with running("up", "--console", "--log", "info", **variables) as server:
        assert httpx.get(f"{url_of(server)}/login", timeout=WAIT_S).status_code == 200
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        names = {json.loads(each)["logger"] for each in server.log.splitlines()}
        assert {name.split(".")[0] for name in names} >= {"pyromq", "uvicorn"}, "lines of both, and no other text"


def test_up_with_access_control_hands_its_console_credentials(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    user = '{"username": "admin", "password": "a-long-admin-secret"}'
    config.write_text(f"[broker.access]\nenabled = true\ninitial_user = '{user}'\n", encoding="utf-8")
    config.chmod(0o600)
    with running("up", "--console", "--config", str(config), PYROMQ_CONSOLE_PASSWORD=PASSWORD) as server:
        url, headers = url_of(server), {"Authorization": f"Bearer {TOKEN}"}
        made = httpx.post(f"{url}/api/v1/topics", json={"name": "orders"}, headers=headers, timeout=WAIT_S)
        assert made.status_code == 201, made.text
        told = httpx.get(f"{url}/api/v1/users", headers=headers, timeout=WAIT_S).json()
        assert "admin" in [user["name"] for user in told["users"]]


def test_it_ends_with_up_even_if_that_is_killed(tmp_path: Path) -> None:
    with running("up", "--console", PYROMQ_CONSOLE_PASSWORD=PASSWORD) as server:
        url = url_of(server)
        assert httpx.get(f"{url}/login", timeout=WAIT_S).status_code == 200
        server.kill()
        until_gone(url)


def test_a_console_that_dies_leaves_the_servers_alone(tmp_path: Path) -> None:
    with running("up", "--console", PYROMQ_CONSOLE_PASSWORD=PASSWORD) as server:
        assert httpx.get(f"{url_of(server)}/login", timeout=WAIT_S).status_code == 200
        (child,) = children_of(server.pid)
        os.kill(child, signal.SIGKILL)
        until_gone(url_of(server))
        server.wait_for("the console ended: exit_code=-9")
        listed = [sys.executable, "-m", "pyromq", "cluster", "ls", "-n", server.nameserver]
        assert subprocess.run(listed, capture_output=True, check=False, timeout=WAIT_S).returncode == 0


def test_without_its_packages_up_says_how_to_get_them_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    hide = "import sys\nsys.modules['starlette'] = None\n"
    (tmp_path / "hidden" / "sitecustomize.py").write_text(hide)
    path = os.pathsep.join(filter(None, [str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")]))
    with running("up", "--console", PYTHONPATH=path) as server:
        assert re.fullmatch(r"ready nameserver=\S+ broker=\S+ grpc=\S+ metrics=\S+\n", server.output)
        server.wait_for(r"pip install 'pyromq\[console\]'")
    alone = subprocess.run(
        CONSOLE, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}, timeout=WAIT_S
    )
    assert alone.returncode == 1
    assert "pip install 'pyromq[console]'" in alone.stderr


def test_it_speaks_https_with_a_certificate(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "pyromq", "tls", "init", str(tmp_path / "tls")]
    subprocess.run(made, check=True, capture_output=True, timeout=WAIT_S)
    certificate, key = tmp_path / "tls" / "server.pem", tmp_path / "tls" / "server-key.pem"
    files = ["--certificate", str(certificate), "--key", str(key)]
    with running("console", "-n", "127.0.0.1:1", *files, PYROMQ_CONSOLE_PASSWORD=PASSWORD) as server:
        found = re.fullmatch(r"console=(https://127\.0\.0\.1:\d+)\n", server.output)
        assert found, server.output
        trusted = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        form = {"name": "admin", "password": PASSWORD}
        with httpx.Client(verify=trusted, base_url=found[1], timeout=WAIT_S) as http:
            signed_in = http.post("/login", data=form, headers={"Origin": found[1]})
            assert signed_in.status_code == 303
            assert "Secure" in signed_in.headers["set-cookie"]
            assert http.get("/access").status_code == 200
