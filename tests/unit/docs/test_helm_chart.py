"""The Helm chart in ``deploy/helm``: what it renders is valid, and true about our command line."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from streamlet.config import Settings
from streamlet.runtime.metrics.table import METRICS
from streamlet.tools.main import build

CHART = Path(__file__).resolve().parents[3] / "deploy" / "helm" / "streamlet"
HELM = shutil.which("helm")
VERSIONS = ("1.27", "1.31")  # of Kubernetes: the oldest that the chart allows, and a later one
WORDS: dict[str, Any] = {
    "application": "words",
    "app": "words:app",
    "image": {"repository": "example/words", "tag": "1"},
    "bootstrapServers": "kafka:9092",
}
EVERYTHING: dict[str, Any] = {
    **WORDS,
    "image": {"repository": "example/words", "tag": "@sha256:" + "0" * 64, "pullSecrets": ["hub"]},
    "processes": 3,
    "settings": {"commit.interval.ms": "1s", "receive.buffer.bytes": 2_000_000},
    "settingsSecret": "words-settings",
    "queries": {"enabled": True, "port": 8080},
    "autoscaling": {"enabled": True},
    "networkPolicy": {"enabled": True, "kafkaTo": [{"podSelector": {}}]},
    "state": {"storageClass": "fast", "whenScaledDown": "Retain"},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}

needs_helm = pytest.mark.skipif(
    HELM is None, reason="no helm here: go install helm.sh/helm/v3/cmd/helm@v3.22.0"
)


def helm(values: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """What Helm says to the chart with some values."""
    file = folder / "values.json"
    file.write_text(json.dumps(values), "utf-8")
    return subprocess.run(
        [str(HELM), "template", "words", str(CHART), "--kube-version=1.31", f"--values={file}"],
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The objects that the chart makes of some values, by kind."""
    done = helm(values, folder)
    assert done.returncode == 0, done.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}


@functools.cache
def options_of_run() -> set[str]:
    command = typer.main.get_command(build()).commands["run"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


def container(objects: dict[str, Any]) -> dict[str, Any]:
    """The one container of the pods, its command checked against the command line."""
    [one] = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    words = one["command"]
    assert words[:2] == ["streamlet", "run"]
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options_of_run()
    return one


def settings(words: list[str]) -> Settings:
    """The settings that a command line gives, as the command reads them."""
    given = [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    assert all("$" not in one or one.startswith("application.server=") for one in given)
    return Settings.load(overrides=[one for one in given if "$" not in one])


@needs_helm
@pytest.mark.parametrize("values", [WORDS, EVERYTHING], ids=["words", "everything"])
def test_what_the_chart_renders_is_valid(values: dict[str, Any], tmp_path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    for one in rendered(values, tmp_path).values():
        if one["apiVersion"].startswith("keda.sh/"):
            continue  # KEDA's own kind, which Kubernetes' schemas do not have
        for version in VERSIONS:
            validate(one, version, strict=True)


@needs_helm
def test_a_pod_hands_its_tasks_over_before_it_is_killed(tmp_path: Path) -> None:
    objects = rendered(WORDS | {"drainTimeoutSeconds": 90}, tmp_path)
    words = container(objects)["command"]
    assert "--drain-on-sigterm" in words
    assert settings(words).scale_down_timeout_ms == 90_000
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 150


@needs_helm
def test_without_drain_an_instance_keeps_its_place(tmp_path: Path) -> None:
    words = container(rendered(WORDS | {"drain": False}, tmp_path))["command"]
    assert "--instance-id=$(POD_NAME)" in words
    assert "--drain-on-sigterm" not in words
    assert settings(words).session_timeout_ms == 120_000


@needs_helm
def test_settings_and_secrets_reach_every_command_in_the_pod(tmp_path: Path) -> None:
    one = container(rendered(EVERYTHING, tmp_path))
    assert "--set=receive.buffer.bytes=2000000" in one["command"]  # and not 2e+06
    assert settings(one["command"]).commit_interval_ms == 1_000
    variables = {each["name"]: each.get("value") for each in one["env"]}
    assert variables["STREAMLET_CONFIG"] == "/settings/streamlet.properties"
    [mount] = [each for each in one["volumeMounts"] if each["name"] == "settings"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/settings", True)


@needs_helm
def test_instances_answer_each_other_at_every_port_of_their_workers(tmp_path: Path) -> None:
    objects = rendered(EVERYTHING, tmp_path)
    assert (
        "--set=application.server=$(POD_NAME).words.$(POD_NAMESPACE):8080"
        in (container(objects)["command"])
    )
    assert objects["Service"]["spec"]["publishNotReadyAddresses"] is True
    policy = objects["NetworkPolicy"]["spec"]
    ranges = [
        (port["port"], port["endPort"])
        for rule in policy["ingress"] + policy["egress"]
        for port in rule["ports"]
        if "endPort" in port
    ]
    assert ranges == [(8080, 8082)] * 2  # three workers


@needs_helm
def test_the_autoscaler_decides_on_the_number_alone(tmp_path: Path) -> None:
    objects = rendered(EVERYTHING, tmp_path)
    assert "replicas" not in objects["StatefulSet"]["spec"]  # or each upgrade would set it back
    [trigger] = objects["ScaledObject"]["spec"]["triggers"]
    [metric] = re.findall(r"streamlet_\w+", trigger["metadata"]["query"])
    assert metric in METRICS


@needs_helm
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"application": ""}, "application"),
        ({"app": "words"}, "app"),
        ({"replica": 3}, "replica"),
        ({"settings": {"commit.interval.ms": 0.5}}, "commit.interval.ms"),
        ({"metrics": {"port": 80}}, "port"),
        ({"nodeSelector": {"gpu": True}}, "nodeSelector"),
        ({"queries": {"enabled": True, "port": 9404}}, "metrics.port is one of them"),
        ({"autoscaling": {"enabled": True, "minReplicas": 20}}, "at most maxReplicas"),
    ],
)
def test_wrong_values_are_refused_by_name(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    done = helm(WORDS | wrong, tmp_path)
    assert done.returncode != 0
    assert said in done.stderr


def test_every_value_has_a_type_and_a_default() -> None:
    """Runs without Helm: values and their schema have the same keys."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    templates = "".join(one.read_text("utf-8") for one in (CHART / "templates").iterdir())
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name, value in values.items():
        assert f".Values.{name}" in templates, name
        known = schema["properties"][name].get("properties")
        if isinstance(value, dict) and known is not None:
            assert value.keys() == known.keys()
