"""What ``deploy/`` and the Dockerfile start exists, under the options and settings that they name."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pyromq.cli.main import app
from pyromq.cli.servers.settings import BROKER, NAMESERVER
from pyromq.cli.servers.settings_sources import from_environment
from pyromq.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "pyromq"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def dockers_command() -> list[str]:
    found = re.search(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    command: list[str] = json.loads(found[1])
    return command


def commands() -> Iterator[Any]:
    yield pytest.param(dockers_command(), id="Dockerfile")
    for name, service in COMPOSE["services"].items():
        yield pytest.param(service["command"], id=f"compose {name}")
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=\S+ (.*)$", unit.read_text(), re.MULTILINE)
        yield pytest.param(line.split(), id=unit.name)


def check_command(words: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Servers show the settings that they would start with; other commands are taken apart up to their help."""
    given = [str(folder / "data") if word in ("/data",) else word for word in words]
    if "--config" in given:  # the operator's own file
        (folder / "server.toml").write_text("")
        given[given.index("--config") + 1] = str(folder / "server.toml")
    last = "--print-config" if words[0] in ("up", "broker", "nameserver") else "--help"
    allowed = {"PYROMQ_BROKER_INSECURE_NETWORK": "true", "PYROMQ_NAMESERVER_INSECURE_NETWORK": "true"}
    shown = CliRunner().invoke(app, [*given, last], env={**allowed, **(environment or {})})
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize("words", list(commands()))
def test_commands_are_understood(words: list[str], tmp_path: Path) -> None:
    check_command(words, tmp_path)


def test_the_image_refuses_to_serve_strangers_by_itself(tmp_path: Path) -> None:
    words = [str(tmp_path) if word == "/data" else word for word in dockers_command()]
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    shown = CliRunner().invoke(app, [*words, "--nameserver-port", "0", "--broker-port", "0"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert isinstance(shown.exception, ConfigError) and "insecure" in str(shown.exception)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_compose_names_settings_that_exist(name: str) -> None:
    given = {key: "1" for key in COMPOSE["services"][name].get("environment", {}) if "CONSOLE" not in key}
    for schema in (BROKER, NAMESERVER):
        mine = {key: "true" if "INSECURE" in key else "127.0.0.1:1" for key in given if schema.table.upper() in key}
        _, strange = from_environment(schema, mine)
        assert strange == []


def test_containers_have_no_rights_and_publish_to_this_machine_only() -> None:
    for service in COMPOSE["services"].values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert re.search(r"^USER 10001$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    assert "NoNewPrivileges=yes" in text and "ProtectSystem=strict" in text
    assert ("Type=notify" in text) == ("WatchdogSec=" in text)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # the lines above are all that can be looked at
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60)
    about_it = [line for line in done.stderr.splitlines() if unit.name in line and "nameserver.service" not in line]
    assert about_it == []


# --- the chart -------------------------------------------------------------------------------------------------------


def test_the_chart_uses_values_that_it_has_and_has_no_others() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    texts = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.([A-Za-z.]+[A-Za-z])", texts))
    for path in used:
        found = values
        for part in path.split("."):
            assert part in found, path
            found = found[part]
    assert {
        path for path in leaves(values) if not any(path == each or path.startswith(f"{each}.") for each in used)
    } == set()


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed: charts are looked at, not rendered")
@pytest.mark.parametrize(
    "said",
    [("security.insecureNetwork=true", "metrics.serviceMonitor=true"), ("security.secretName=s", "broker.replicas=3")],
)
def test_the_chart_renders_servers_that_start(said: tuple[str, ...], tmp_path: Path) -> None:
    sets = [word for each in said for word in ("--set", each)]
    subprocess.run(["helm", "lint", "--strict", str(CHART), *sets], check=True, timeout=120)
    render = ["helm", "template", "mq", str(CHART), "--kube-version", "1.30.0", *sets]
    rendered = subprocess.run(render, check=True, capture_output=True, text=True, timeout=120).stdout
    containers = [
        container
        for document in yaml.safe_load_all(rendered)
        if document and document["kind"] in ("StatefulSet", "Deployment")
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert len(containers) == 3
    for container in containers:
        words = [word.replace("=/data", f"={tmp_path}") for word in container["args"]]
        words = [word for word in words if not word.startswith("--config")]
        environment = {each["name"]: each.get("value", "mq-broker-0") for each in container.get("env") or ()}
        check_command(words, tmp_path, environment)


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed: charts are looked at, not rendered")
def test_the_chart_wants_to_know_who_may_connect() -> None:
    render = ["helm", "template", "mq", str(CHART), "--kube-version", "1.30.0"]
    refused = subprocess.run(render, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "say who may connect" in refused.stderr
