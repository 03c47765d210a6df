"""Certificates for tests, signed by themselves: each is its own authority."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Certificate(NamedTuple):
    file: Path
    key: Path


def make_certificate(folder: Path, name: str, alternatives: str = "DNS:localhost,IP:127.0.0.1") -> Certificate:
    """Needs the openssl command; without it the test is skipped."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl command to make a certificate with, and the standard library cannot make one")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}-key.pem")
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
    files = ["-addext", f"subjectAltName={alternatives}", "-keyout", made.key, "-out", made.file]
    subprocess.run([*command.split(), *files], check=True, capture_output=True, timeout=30)
    return made
