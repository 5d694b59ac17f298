"""`deploy/`, read and not run: what it names is there, and nothing runs as root or without a probe."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from neve.cli.app import app
from neve.config import load_settings
from neve.http import create_app
from neve.lake import Lake

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[Any]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


def check_command(words: list[str]) -> None:
    """Every command and option there is."""
    found: Any = typer.main.get_command(app)
    while words and words[0] in getattr(found, "commands", {}):
        found, words = found.commands[words[0]], words[1:]
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in words if word.startswith("--") and word not in known] == []


def metrics(text: str) -> set[str]:
    return set(re.findall(r"neve_[a-z_]+", text))


def test_the_image_runs_as_nobody_and_says_how_it_is() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    steps = [line.split(" ", 1) for line in lines if line.strip()]
    users = [words for verb, words in steps if verb == "USER"]
    assert users == ["10001:10001"]
    assert all(":" in words.split()[0] and "latest" not in words for verb, words in steps if verb == "FROM")
    last = [verb for verb, _ in steps]
    assert last.index("USER") < last.index("ENTRYPOINT") < last.index("CMD")
    health = next(words for verb, words in steps if verb == "HEALTHCHECK")
    assert "http://127.0.0.1:8080/health'" in health
    commands = {verb: json.loads(words) for verb, words in steps if verb in ("ENTRYPOINT", "CMD")}
    assert commands["ENTRYPOINT"] == ["neve"]
    check_command(commands["CMD"])
    assert "--require-hashes" in text
    for verb, words in steps:
        if verb == "COPY" and not words.startswith("--from"):
            for source in words.split()[:-1]:
                assert (DEPLOY.parent / source).exists(), source
        if verb == "RUN" and "apt-get install" in words:
            assert "--no-install-recommends" in words
            assert "rm -rf /var/lib/apt/lists/*" in words


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    compose = documents(DEPLOY / "compose.yaml")[0]
    for name in ("server", "worker"):
        yield name, compose["services"][name]["environment"]
    secret = {
        word.partition("=")[0].removeprefix("--from-literal="): word.partition("=")[2]
        for word in re.findall(r"--from-literal=\S+", (DEPLOY / "kubernetes" / "settings.yaml").read_text())
    }
    for found in documents(DEPLOY / "kubernetes" / "settings.yaml"):
        if found["kind"] == "ConfigMap":
            yield "kubernetes", found["data"] | secret


@pytest.mark.parametrize(("name", "given"), [*environments()])
def test_settings_are_known_and_make_sense(lake: Lake, name: str, given: dict[str, str]) -> None:
    plain = {key: re.sub(r"\$\{[^}]*\}|…", "x", value) for key, value in given.items()}
    loaded = load_settings(lake.root, flags={}, env=plain, profile=None)
    assert loaded.settings.catalog.type == "postgresql"
    assert loaded.settings.warehouse == "s3://lake/warehouse"
    assert loaded.settings.profile == "prod"


def test_the_parts_of_compose_fit() -> None:
    found = documents(DEPLOY / "compose.yaml")[0]
    services = found["services"]
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in services
            if how["condition"] == "service_healthy":
                assert "test" in services[needed]["healthcheck"], needed
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in found["volumes"]
        assert "latest" not in service.get("image", "x:1")
        assert ":" in service["image"]
        if name in ("server", "worker"):
            check_command(service["command"])
            assert service["cap_drop"] == ["ALL"]
    assert services["server"]["ports"] == ["127.0.0.1:8080:8080"]  # what others reach is a proxy's
    hosts = re.findall(r"@(\w+):|http://(\w+):9000", (DEPLOY / "compose.yaml").read_text())
    assert {host for pair in hosts for host in pair if host} <= set(services)


@pytest.mark.slow
def test_manifests_are_whole(lake: Lake) -> None:
    routes = {getattr(route, "path", "") for route in create_app(lake).routes}
    kinds = {"Namespace": "v1", "ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"}
    kinds["NetworkPolicy"] = "networking.k8s.io/v1"
    pods: dict[str, Any] = {}
    for path in MANIFESTS:
        for found in documents(path):
            assert found["apiVersion"] == kinds[found["kind"]]
            assert found["kind"] == "Namespace" or found["metadata"]["namespace"] == "neve"
            if found["kind"] == "Deployment":
                labels = found["spec"]["template"]["metadata"]["labels"]
                assert found["spec"]["selector"]["matchLabels"] == labels
                pods[found["metadata"]["name"]] = (labels, found["spec"]["template"]["spec"])
    assert set(pods) == {"neve-server", "neve-worker"}
    for _, pod in pods.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        check_command(container["args"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        for probe in ("livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["path"] in routes
    server = pods["neve-server"][1]["containers"][0]
    assert {"livenessProbe", "readinessProbe"} <= set(server)
    service = next(found for path in MANIFESTS for found in documents(path) if found["kind"] == "Service")
    assert service["spec"]["selector"] == pods["neve-server"][0]
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in server["ports"]}


def test_the_unit_starts_what_there_is() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DEPLOY / "neve.service").read_text())
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[0].endswith("/neve")
    check_command(words[1:])
    assert unit["Service"]["User"] == "neve"
    assert unit["Service"]["KillSignal"] == "SIGTERM"
    assert unit["Service"]["WorkingDirectory"] == f"/var/lib/{unit['Service']['StateDirectory']}"


def test_alerts_and_panels_ask_for_figures_that_there_are(lake: Lake) -> None:
    source = Path(__file__).parents[2] / "src" / "neve"
    files = [source / "services" / "worker" / "metrics.py", source / "http" / "service.py"]
    known = set().union(*(re.findall(r'name="(neve_[a-z_]+)"', file.read_text()) for file in files))
    (rules,) = documents(DEPLOY / "prometheus-alerts.yaml")
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    asked = [rule["expr"] for rule in alerts] + [
        target["expr"] for panel in board["panels"] for target in panel["targets"]
    ]
    for text in asked:
        assert metrics(text)
        assert metrics(text) <= known, text
        assert text.count("(") == text.count(")")
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in alerts)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
