"""The console on what ``make demo`` left behind, with a shop at work in it; stays until Ctrl-C.

    python examples/demo_console.py FOLDER

FOLDER is where ``orders_survive_a_crash.py`` kept its data; without data there, it runs first. The servers are one
``pyromq up``; its console asks for a password, which is printed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import busy_shop
from orders_survive_a_crash import LADDER

HERE = Path(__file__).parent


def start_servers(folder: Path, password: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """``pyromq up`` on ports that are free, and its ready line by name."""
    ports = ("--nameserver-port", "0", "--broker-port", "0", "--console", "--console-port", "0")
    command = [sys.executable, "-m", "pyromq", "up", "--data", str(folder), *ports, "--set", LADDER, "--log", "error"]
    environment = {**os.environ, "PYROMQ_CONSOLE_PASSWORD": password}
    servers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert servers.stdout is not None
    ready = servers.stdout.readline()
    return servers, dict(re.findall(r"(\w+)=(\S+)", ready))


def main(folder: Path) -> int:
    if not (folder / "commitlog").is_dir():
        print("no demo has run yet: it runs now, half a minute", flush=True)
        subprocess.run([sys.executable, str(HERE / "orders_survive_a_crash.py"), str(folder)], check=True)
    password = os.environ.get("PYROMQ_CONSOLE_PASSWORD") or secrets.token_urlsafe(9)
    servers, ready = start_servers(folder, password)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if "console" not in ready:
            print("the servers did not start")
            return 1
        print(f"\nconsole   {ready['console']}\npassword  {password}\n\nCtrl-C ends it.\n", flush=True)
        asyncio.run(busy_shop.main(ready["nameserver"]))
    except KeyboardInterrupt:
        print("\nstopped; the data stays in", folder)
    finally:
        servers.terminate()
        servers.communicate(timeout=30)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
