"""The image of the Dockerfile, built without a daemon and started once: as root on Debian, with its packages alone.

    mmdebstrap   a root file system with Python from Debian's packages stands in for the official Python image
    buildah      the Dockerfile itself, step by step, without a daemon
    unshare      user 10001, a root that is read-only, no network: ``pyromq up``, its health check, one message

Nothing is pushed anywhere. The image that people run has the official base (``docker build .``), which a machine
without that registry cannot fetch.
"""

from __future__ import annotations

import shutil
import sys
from typing import Final

from release.building import ROOT, ReleaseError, run

_PROGRAMS: Final = ("buildah", "mmdebstrap", "unshare", "chroot", "ip")
_BASE, _IMAGE = "localhost/debian-python", "localhost/pyromq"
_ENVIRONMENT: Final = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
_START: Final = """
set -eu
root=$1
mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/data"; chown 10001 "$root/data"; mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
ip link set lo up
exec chroot --userspec=10001:10001 "$root" /usr/bin/env -i PATH=/opt/pyromq/bin:/usr/bin:/bin HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 PYROMQ_LOG_FORMAT=json /bin/sh -c '
cd /data
if touch /written 2>/dev/null; then echo "the root is not read-only"; exit 1; fi
pyromq up --data /data --host 127.0.0.1 --no-console > out 2> log & server=$!
for try in $(seq 120); do grep -q ^ready out && break; kill -0 $server || { cat log; exit 1; }; sleep 0.5; done
pyromq health && pyromq send orders hello && pyromq --version
kill $server; wait $server || { echo "it ended with $?"; exit 1; }'
"""


def main() -> int:
    """Build the image from the wheels in dist/, start it, send a message."""
    missing = [each for each in _PROGRAMS if not shutil.which(each)]
    if missing:
        print(f"release: {', '.join(missing)} missing: apt-get install buildah mmdebstrap iproute2", file=sys.stderr)
        return 1
    try:
        if not list((ROOT / "dist").glob("pyromq-*.whl")):
            raise ReleaseError("dist/ has no wheel: make wheels")
        build()
        print(start(), end="")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def build() -> None:
    """The base, once, and the Dockerfile's two stages on it."""
    if _BASE not in _buildah("images", "--format", "{{.Name}}"):
        archive = ROOT / ".cache/debian-python.tar"
        run("mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", archive)
        container = _buildah("from", "scratch").strip()
        _buildah("add", container, str(archive), "/")
        _buildah("commit", "--rm", container, _BASE)
    hosts = [f"--volume={each}:{each}:ro" for each in ("/etc/ssl/certs", "/etc/resolv.conf")]
    options = ["--network=host", "--format=docker", f"--build-arg=BASE={_BASE}", f"--tag={_IMAGE}", *hosts]
    _buildah("bud", *options, str(ROOT))


def start() -> str:
    """Run the image's server and a client in it; returns what they printed."""
    container = _buildah("from", "--pull-never", _IMAGE).strip()
    try:
        root = _buildah("mount", container).strip()
        return run("unshare", "--mount", "--net", "sh", "-c", _START, "start", root)
    finally:
        _buildah("rm", container)


def _buildah(*arguments: str) -> str:
    return run("buildah", *arguments, env=_ENVIRONMENT)


if __name__ == "__main__":
    raise SystemExit(main())
