"""Certificates of a small cluster: an authority of its own, servers that clients trust, clients that servers know.

    ca.pem, ca-key.pem                      the authority; its key signs, and belongs on no server
    server.pem, server-key.pem              of name servers and brokers: names and addresses that clients connect to
    client-NAME.pem, client-NAME-key.pem    of a client; NAME is the user that it is (validator "certificate")

Keys are readable by their owner alone. Nothing that is there is overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyromq.errors import ConfigError, quoted

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_DAYS: Final = 3650
DAYS: Final = 825  # what browsers and some clients accept at most
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SKEW: Final = timedelta(minutes=5)  # clocks of other machines may be behind


class PemFiles(NamedTuple):
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """Facts that a certificate states."""

    file: str
    name: str
    issuer: str
    hosts: tuple[str, ...]
    valid_until: datetime


class CertificateFolder:
    """The folder that keeps them. Everything raises ConfigError, also when ``cryptography`` is not installed."""

    def __init__(self, folder: Path, *, now: datetime | None = None) -> None:
        _require_cryptography()
        self.folder = folder
        self._now = now or datetime.now(UTC)

    @property
    def authority(self) -> PemFiles:
        return self._files("ca")

    def make_authority(self, name: str = "PyroMQ cluster", *, days: int = CA_DAYS) -> PemFiles:
        from cryptography import x509

        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        key = _new_key()
        subject = _subject(name)
        usage = x509.KeyUsage(**{**dict.fromkeys(_USAGES, False), "key_cert_sign": True, "crl_sign": True})
        builder = (
            self._begun(subject, subject, key, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        return self._write("ca", key, _signed(builder, key, key))

    def add_server(self, hosts: Sequence[str] = (), *, name: str = "server", days: int = DAYS) -> PemFiles:
        """For a server that clients reach by these names and addresses, or from the same machine."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        names = x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys((*hosts, *_LOCAL))])
        both = [Usage.SERVER_AUTH, Usage.CLIENT_AUTH]  # a broker is a client of its name servers
        return self._add(_checked(name), hosts[0] if hosts else name, both, names, days)

    def add_client(self, name: str, *, days: int = DAYS) -> PemFiles:
        """For a client that is the user ``name``."""
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        return self._add(f"client-{_checked(name)}", name, [Usage.CLIENT_AUTH], None, days)

    def facts(self) -> list[CertificateFacts]:
        """Facts about every certificate in the folder, by file name."""
        return [certificate_facts(path) for path in sorted(self.folder.glob("*.pem")) if not path.stem.endswith("-key")]

    # --- how they are made ---

    def _add(
        self, stem: str, name: str, usages: Sequence[Any], names: x509.SubjectAlternativeName | None, days: int
    ) -> PemFiles:
        from cryptography import x509

        authority, authority_key = self._authority()
        key = _new_key()
        builder = (
            self._begun(_subject(name), authority.subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(_key_id_of(authority), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return self._write(stem, key, _signed(builder, key, authority_key))

    def _begun(self, subject: Any, issuer: Any, key: EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        from cryptography import x509

        if days < 1:
            raise ConfigError(f"a certificate is valid for at least one day, not {days}")
        return (
            x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _authority(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        files = self.authority
        try:
            certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
            key = load_pem_private_key(files.key.read_bytes(), None)
        except FileNotFoundError as error:
            text = f"there is no authority in {self.folder} ({error.filename}); make one with pyromq tls init"
            raise ConfigError(text) from error
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"the authority in {self.folder} cannot be used: {error}") from error
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ConfigError(f"{files.key} is not a key that pyromq tls init makes")
        return certificate, key

    def _files(self, stem: str) -> PemFiles:
        return PemFiles(self.folder / f"{stem}.pem", self.folder / f"{stem}-key.pem")

    def _write(self, stem: str, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> PemFiles:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        files = self._files(stem)
        for path in files:
            if path.exists():
                raise ConfigError(f"{path} is there already; remove it first if it is to be made anew")
        _write_new(files.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
        _write_new(files.certificate, certificate.public_bytes(Encoding.PEM), 0o644)
        return files


def certificate_facts(path: Path) -> CertificateFacts:
    """Read a certificate's names, issuer and validity. Raises ConfigError."""
    _require_cryptography()
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a certificate in PEM form: {error}") from error
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(str(each.value) for each in names)
    except x509.ExtensionNotFound:
        hosts = ()
    return CertificateFacts(
        file=path.name,
        name=_common_name(certificate.subject),
        issuer=_common_name(certificate.issuer),
        hosts=hosts,
        valid_until=certificate.not_valid_after_utc,
    )


_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  looked for, used by the functions
    except ImportError as error:
        raise ConfigError("certificates need the package cryptography: pip install 'pyromq[tls]'") from error


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(
    builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, by: EllipticCurvePrivateKey
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(own_id, critical=False).sign(by, hashes.SHA256())


def _key_id_of(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    own_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id)


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    except ValueError as error:
        raise ConfigError(f"{quoted(name)} cannot be the name in a certificate: {error}") from error


def _common_name(name: x509.Name) -> str:
    from cryptography.x509.oid import NameOID

    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise ConfigError(f"{quoted(host)} is neither a host name nor an address: {error}") from error


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{quoted(name)} cannot be part of a file name: use letters, digits, '.', '_' and '-'")
    return name


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
