"""Certificates of a small cluster: both sides accept them, strangers' are refused, and nothing is overwritten."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.net.settings import TlsMode
from pyromq.net.tls import ServerTls, TlsSettings
from pyromq.security.certificates import CertificateFolder, PemFiles


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateFolder:
    folder = CertificateFolder(tmp_path / "tls")
    folder.make_authority()
    return folder


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Both ends in memory; the server's end. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    theirs.do_handshake()
    return theirs


def contexts(
    folder: CertificateFolder, server: PemFiles, client: PemFiles | None = None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    ca = folder.authority.certificate
    of_server = ServerTls(
        mode=TlsMode.ENFORCING, certificate_file=server.certificate, key_file=server.key, ca_file=ca if client else None
    ).context()
    assert of_server is not None
    of_client = TlsSettings(
        ca_file=ca,
        certificate_file=client.certificate if client else None,
        key_file=client.key if client else None,
    ).context()
    return of_server, of_client


@pytest.mark.parametrize("host", ["mq.example", "10.0.0.7", "localhost", "127.0.0.1", "::1"])
def test_clients_trust_a_server_by_each_of_its_names(certificates: CertificateFolder, host: str) -> None:
    shake_hands(*contexts(certificates, certificates.add_server(["mq.example", "10.0.0.7"])), host)


def test_another_name_is_not_trusted(certificates: CertificateFolder) -> None:
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shake_hands(*contexts(certificates, certificates.add_server(["mq.example"])), "mq2.example")


def test_a_server_knows_a_client_by_name(certificates: CertificateFolder) -> None:
    pair = contexts(certificates, certificates.add_server(), certificates.add_client("billing"))
    found = shake_hands(*pair, "localhost").getpeercert()
    assert found is not None and found["subject"] == ((("commonName", "billing"),),)


def test_a_certificate_of_another_authority_is_refused(certificates: CertificateFolder, tmp_path: Path) -> None:
    other = CertificateFolder(tmp_path / "other")
    other.make_authority()
    stranger = other.add_client("billing")
    server, _ = contexts(certificates, certificates.add_server(), certificates.add_client("shipping"))
    client = TlsSettings(
        ca_file=certificates.authority.certificate, certificate_file=stranger.certificate, key_file=stranger.key
    ).context()
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client, "localhost").read()


def test_the_certificate_of_a_client_does_not_make_a_server(certificates: CertificateFolder) -> None:
    with pytest.raises(ssl.SSLError):
        shake_hands(*contexts(certificates, certificates.add_client("localhost")), "localhost")


def test_keys_are_readable_by_their_owner_alone(certificates: CertificateFolder) -> None:
    certificates.add_server()
    certificates.add_client("billing")
    keys = list(certificates.folder.glob("*-key.pem"))
    assert len(keys) == 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert stat.S_IMODE(certificates.folder.stat().st_mode) == 0o700


def test_nothing_is_overwritten(certificates: CertificateFolder) -> None:
    before = certificates.authority.key.read_bytes()
    with pytest.raises(ConfigError, match=r"ca\.pem is there already; remove it first"):
        certificates.make_authority()
    assert certificates.authority.key.read_bytes() == before


def test_facts_tell_names_and_ends(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    folder = CertificateFolder(tmp_path, now=now)
    folder.make_authority("shop")
    folder.add_server(["mq.example"], days=30)
    authority, server = folder.facts()
    assert (authority.name, authority.issuer, authority.hosts) == ("shop", "shop", ())
    assert (server.name, server.issuer) == ("mq.example", "shop")
    assert server.hosts == ("mq.example", "localhost", "127.0.0.1", "::1")
    assert server.valid_until == now + timedelta(days=30)


@pytest.mark.parametrize(
    ("name", "said"), [("../billing", "cannot be part of a file name"), ("", "cannot be part"), ("a" * 65, "cannot be")]
)
def test_names_of_clients_stay_in_the_folder(certificates: CertificateFolder, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        certificates.add_client(name)


def test_without_an_authority_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make one with pyromq tls init"):
        CertificateFolder(tmp_path).add_client("billing")


def test_a_damaged_authority_is_told_in_words(certificates: CertificateFolder) -> None:
    certificates.authority.key.write_text("no key")
    with pytest.raises(ConfigError, match=r"the authority in .* cannot be used"):
        certificates.add_server()


def test_without_cryptography_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"pip install 'pyromq\[tls\]'"):
        CertificateFolder(tmp_path)
