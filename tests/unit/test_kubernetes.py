"""The example for Kubernetes: valid YAML, and true about our command line, ports and metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from streamlet.config import Settings
from streamlet.runtime.metrics.table import METRICS
from streamlet.tools.main import build

ROOT = Path(__file__).resolve().parents[2]
PROBES = ("startup", "liveness", "readiness")
FILE = ROOT / "examples" / "kubernetes" / "words.yaml"


@pytest.fixture
def objects() -> dict[str, Any]:
    """The objects of the example, by kind."""
    found = list(yaml.safe_load_all(FILE.read_text("utf-8")))
    assert all(one["apiVersion"] and one["metadata"]["name"] == "words" for one in found)
    return {one["kind"]: one["spec"] for one in found}


def options(words: list[str]) -> dict[str, str]:
    """The options of a command line ``streamlet …``, which must be ones of that command."""
    command = typer.main.get_command(build()).commands[words[1]]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    given = [word.partition("=") for word in words[2:] if word.startswith("--")]
    assert {name for name, _, _ in given} <= known
    return {name: value for name, _, value in given}


def test_pods_are_run_drained_and_probed_as_streamlet_has_it(objects: dict[str, Any]) -> None:
    pod = objects["StatefulSet"]["template"]["spec"]
    [container] = pod["containers"]
    assert "lifecycle" not in container  # SIGTERM is the one way to drain
    run = options(container["command"])
    assert run["--state-dir"] == "/state"
    assert "--drain-on-sigterm" in container["command"]
    mount, _ = container["volumeMounts"]
    [claim] = objects["StatefulSet"]["volumeClaimTemplates"]
    assert (mount["name"], mount["mountPath"]) == (claim["metadata"]["name"], "/state")
    [port] = container["ports"]
    assert str(port["containerPort"]) == run["--metrics-port"]
    assert run["--metrics-host"] == "0.0.0.0"  # probes come from outside the pod
    paths = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in PROBES]
    assert paths == ["/health", "/health", "/ready"]
    settings = Settings.load(overrides=[run["--set"]])
    assert settings.scale_down_timeout_ms is not None
    assert pod["terminationGracePeriodSeconds"] * 1000 > settings.scale_down_timeout_ms


@pytest.mark.parametrize("file", sorted(FILE.parent.rglob("*.yaml")), ids=str)
def test_a_name_by_which_a_pod_starts_is_known_before_it_is_ready(file: Path) -> None:
    """A service without an address of its own has those of ready pods only, unless it says so.

    A pod whose command names the service waits for others that reach it by that name, and is not
    ready until then.
    """
    found = list(yaml.safe_load_all(file.read_text("utf-8")))
    services = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Service"}
    pods = [one["spec"]["template"]["spec"] for one in found if "template" in one.get("spec", {})]
    words = [word for pod in pods for one in pod["containers"] for word in one["command"]]
    for name, service in services.items():
        if any(word.endswith(f".host={name}") for word in words):
            assert service.get("publishNotReadyAddresses") is True


def test_the_autoscaler_asks_for_a_metric_that_there_is(objects: dict[str, Any]) -> None:
    [trigger] = objects["ScaledObject"]["triggers"]
    [metric] = re.findall(r"streamlet_\w+", trigger["metadata"]["query"])
    assert metric in METRICS
    assert (trigger["metricType"], trigger["metadata"]["threshold"]) == ("AverageValue", "1")
    assert objects["ScaledObject"]["scaleTargetRef"]["kind"] == "StatefulSet"
