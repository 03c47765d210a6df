"""``pyromq tls``: certificates for a small cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click

from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.output.tables import Column, FormOption, form_for, write_rows

app = Commands(help="Certificates of a small cluster: an authority, servers, clients.")

FolderArgument = Annotated[Path, Argument(help="Folder that keeps the certificates.")]
DaysOption = Annotated[int, Option(min=1, help="How long the certificates of servers and clients are valid.")]

_COLUMNS = (
    Column("file", "file"),
    Column("name", "name"),
    Column("issuer", "signed by"),
    Column("hosts", "for"),
    Column("valid_until", "valid until", whole=True),
)


@app.command("init")
def init(
    folder: FolderArgument,
    host: Annotated[list[str] | None, Option(help="Name or address that clients connect to; may be repeated.")] = None,
    client: Annotated[list[str] | None, Option(help="Also a certificate for this user; may be repeated.")] = None,
    days: DaysOption = 825,
) -> None:
    """Make an authority, a certificate for servers and, if wanted, some for clients."""
    from pyromq.security.certificates import CertificateFolder

    certificates = CertificateFolder(folder)
    made = [certificates.make_authority(), certificates.add_server(host or [], days=days)]
    made += [certificates.add_client(name, days=days) for name in client or []]
    for files in made:
        click.echo(f"{files.certificate}  {files.key}")
    server, authority = made[1], made[0].certificate
    click.echo(
        "\nservers:  tls_mode = enforcing, "
        f"tls_certificate_file = {server.certificate}, tls_key_file = {server.key}\n"
        f"clients:  pyromq --tls-ca {authority} …, TlsSettings(ca_file={str(authority)!r})\n"
        f"keep {made[0].key} away from servers: whoever has it can make certificates that they trust",
        err=True,
    )


@app.command("server")
def server(
    folder: FolderArgument,
    host: Annotated[list[str], Option(help="Name or address that clients connect to; may be repeated.")],
    name: Annotated[str, Option(help="Name of the files.")] = "server",
    days: DaysOption = 825,
) -> None:
    """Make a certificate for another server."""
    from pyromq.security.certificates import CertificateFolder

    files = CertificateFolder(folder).add_server(host, name=name, days=days)
    click.echo(f"{files.certificate}  {files.key}")


@app.command("client")
def client(
    folder: FolderArgument,
    name: Annotated[str, Argument(help="The user that the client is.")],
    days: DaysOption = 825,
) -> None:
    """Make a certificate for a client."""
    from pyromq.security.certificates import CertificateFolder

    files = CertificateFolder(folder).add_client(name, days=days)
    click.echo(f"{files.certificate}  {files.key}")


@app.command("ls")
def list_certificates(folder: FolderArgument, output: FormOption = None) -> None:
    """List the certificates of a folder: for whom they are, and how long they are valid."""
    from dataclasses import asdict

    from pyromq.security.certificates import CertificateFolder

    rows = [
        {**asdict(each), "hosts": " ".join(each.hosts), "valid_until": f"{each.valid_until:%Y-%m-%d %H:%M:%S} UTC"}
        for each in CertificateFolder(folder).facts()
    ]
    write_rows(sys.stdout, form_for(output, sys.stdout), _COLUMNS, rows)
    if not rows:
        click.echo(f"{folder} holds no certificates", err=True)
