"""Certificates for tests, signed by themselves: each is its own authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))


class Certificate(NamedTuple):
    file: Path
    key: Path


def make_certificate(folder: Path, name: str, *hosts: str) -> Certificate:
    """For hosts by name; without any, for this machine as peers on it reach it."""
    key = ec.generate_private_key(ec.SECP256R1())
    written = Certificate(folder / f"{name}.pem", folder / f"{name}-key.pem")
    written.file.write_bytes(_self_signed(key, name, hosts).public_bytes(serialization.Encoding.PEM))
    unprotected = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    written.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *unprotected))
    return written


def _self_signed(key: ec.EllipticCurvePrivateKey, name: str, hosts: tuple[str, ...]) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts] or LOOPBACK), critical=False)
        .sign(key, hashes.SHA256())
    )
