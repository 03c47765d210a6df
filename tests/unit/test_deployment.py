"""What ``deploy/`` and the Dockerfile start exists, under the options and settings that they name."""

from __future__ import annotations

import json
import os
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
HELM = shutil.which("helm") or shutil.which("helm", path=str(ROOT / ".cache" / "tools"))
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def dockers_command() -> list[str]:
    found = re.search(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    command: list[str] = json.loads(found[1])
    return command


def servers_of_compose() -> dict[str, Any]:
    """Services of our own image; the test of the whole file starts the others, too (tests/integration/test_compose)."""
    return {name: service for name, service in COMPOSE["services"].items() if "entrypoint" not in service}


def commands() -> Iterator[Any]:
    yield pytest.param(dockers_command(), id="Dockerfile")
    for name, service in servers_of_compose().items():
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


@pytest.mark.parametrize("name", servers_of_compose())
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
        assert service.get("network_mode", "") in ("", "service:machine")
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


INSECURE = ("security.insecureNetwork=true", "security.insecureReplication=true")
with_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed (make helm): the chart was not rendered")


def helm(command: str, said: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    sets = [word for each in said for word in ("--set", each)]
    ways = {"lint": ("--strict", str(CHART)), "template": ("mq", str(CHART), "--kube-version", "1.30.0")}
    return subprocess.run([str(HELM), command, *ways[command], *sets], capture_output=True, text=True, timeout=120)


def rendered(*said: str) -> list[dict[str, Any]]:
    for command in ("lint", "template"):
        done = helm(command, said)
        assert done.returncode == 0, done.stdout + done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pods_of(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = [each for each in documents if each["kind"] in ("StatefulSet", "Deployment")]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in found}


def words_of(container: dict[str, Any], pod: str, folder: Path) -> list[str]:
    """What a container runs in that pod; the shell of a member's container is asked for what it would start."""
    words = [word.replace("=/data", f"={folder}") for word in container["args"] if not word.startswith("--config")]
    if "command" not in container:
        return words
    script = container["command"][2].replace("exec pyromq", "exec printf '%s\\n'")
    environment = {"HOSTNAME": pod, "PATH": os.environ["PATH"]}
    command = [*container["command"][:2], script, *container["command"][3:], *words]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return asked.stdout.splitlines()


@with_helm
@pytest.mark.parametrize(
    ("said", "containers"),
    [
        ((*INSECURE, "metrics.serviceMonitor=true"), 4),
        (("security.secretName=s", "security.insecureReplication=true", "broker.sets=2"), 6),
        (("security.secretName=s", "broker.members=1", "broker.sets=3"), 5),
    ],
)
def test_the_chart_renders_servers_that_start(said: tuple[str, ...], containers: int, tmp_path: Path) -> None:
    pods = pods_of(rendered(*said))
    assert sum(len(pod["containers"]) for pod in pods.values()) == containers
    for name, pod in pods.items():
        for container in pod["containers"]:
            environment = {each["name"]: each.get("value", "text") for each in container.get("env") or ()}
            for number in range(3):
                check_command(words_of(container, f"{name}-{number}", tmp_path), tmp_path, environment)


@with_helm
def test_a_set_has_one_first_master_and_ids_of_its_own(tmp_path: Path) -> None:
    broker, agent = pods_of(rendered(*INSECURE))["mq-broker-0"]["containers"]
    commands = [" ".join(words_of(broker, f"mq-broker-0-{number}", tmp_path)) for number in range(3)]
    assert ["--role=sync-master" in each for each in commands] == [True, False, False]
    assert [re.findall(r"--broker-id=(\d+)", each) for each in commands] == [[], ["2"], ["3"]]
    assert [re.findall(r"replica_id=(\d+)", each) for each in commands] == [["1"], ["2"], ["3"]]
    assert all("--failover" in each and "--name=mq-broker-0 " in each for each in commands)
    assert agent["args"][:3] == ["failover", "--store=kubernetes:", "--broker=127.0.0.1:10911"]


@with_helm
def test_agents_alone_have_the_account_that_may_change_leases() -> None:
    documents = rendered(*INSECURE)
    (role,) = [each for each in documents if each["kind"] == "Role"]
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    ]
    (binding,) = [each for each in documents if each["kind"] == "RoleBinding"]
    pod = pods_of(documents)["mq-broker-0"]
    assert binding["subjects"][0]["name"] == pod["serviceAccountName"] and binding["roleRef"]["name"] == "mq-broker"
    assert pod["automountServiceAccountToken"] is False
    mounts = {each["name"]: {mount["name"] for mount in each["volumeMounts"]} for each in pod["containers"]}
    assert "account" in mounts["failover"] and "account" not in mounts["broker"]
    alone = rendered("security.insecureNetwork=true", "broker.members=1")
    assert not {each["kind"] for each in alone} & {"Role", "RoleBinding", "ServiceAccount", "NetworkPolicy"}


@with_helm
def test_brokers_alone_reach_the_port_for_replicas() -> None:
    (policy,) = [each for each in rendered(*INSECURE) if each["kind"] == "NetworkPolicy"]
    everybody, brokers = policy["spec"]["ingress"]
    assert [each["port"] for each in everybody["ports"]] == [10911, 10909, 5557] and "from" not in everybody
    assert [each["port"] for each in brokers["ports"]] == [10912]
    assert brokers["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "broker"


@with_helm
@pytest.mark.parametrize(
    ("said", "text"),
    [((), "say who may connect"), (("security.secretName=s",), "is not encrypted")],
)
def test_the_chart_wants_to_know_who_may_connect(said: tuple[str, ...], text: str) -> None:
    refused = helm("template", said)
    assert refused.returncode != 0 and text in refused.stderr
