"""The manifests of the examples, against the model of Kubernetes' API that comes with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import yaml

from streamlet.tools.spark_arguments import SparkArguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "kubernetes"
MODEL = "io.fabric8.kubernetes.api.model"
#: Objects of other projects than Kubernetes.
FOREIGN = {"ScaledObject"}


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def unknown(spark: SparkSession, one: dict[str, Any]) -> list[str]:
    """Fields that the API does not have; values of a wrong type are an error of the JVM's."""
    jvm: Any = spark._jvm
    loaded = jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(yaml.safe_dump(one))
    return sorted(_unknown(loaded.getClass(), one, one["kind"]))


def _unknown(kind: Any, given: Any, path: str) -> Iterator[str]:
    """Compare what is given with the fields of a class of the model."""
    if isinstance(given, list):
        for one in given:
            yield from _unknown(kind, one, path)
    elif isinstance(given, dict) and kind.getName().startswith(MODEL):
        fields = {field.getName(): field for field in kind.getDeclaredFields()}
        for name, value in given.items():
            if name not in fields:
                yield f"{path}.{name}"
            elif isinstance(value, dict | list):
                yield from _unknown(_kind(fields[name]), value, f"{path}.{name}")


def _kind(field: Any) -> Any:
    """The class of a field, or of the entries of one that is a list."""
    generic = field.getGenericType()
    if field.getType().getName() == "java.util.List":
        return generic.getActualTypeArguments()[0]
    return field.getType()


@pytest.mark.parametrize("name", ["words.yaml", "spark/words.yaml"])
def test_every_field_of_the_manifests_is_one_of_kubernetes(spark: SparkSession, name: str) -> None:
    ours = [one for one in objects(name) if one["kind"] not in FOREIGN]
    assert ours
    assert [field for one in ours for field in unknown(spark, one)] == []


def test_a_field_that_is_none_and_a_value_of_a_wrong_type_are_found(spark: SparkSession) -> None:
    service, deployment = objects("spark/words.yaml")[-2:]
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
    assert unknown(spark, deployment) == ["Deployment.spec.template.spec.containers.imagePolicy"]
    service["spec"]["ports"][0]["port"] = "driver"
    with pytest.raises(Exception, match=r"not a valid `int` value|Cannot deserialize"):
        unknown(spark, service)


def test_the_driver_is_run_by_options_that_there_are() -> None:
    *_, service, deployment = objects("spark/words.yaml")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    words = [word.removeprefix("--").partition("=") for word in container["command"][3:]]
    options = {name: value for name, _, value in words if name != "conf"}
    conf = dict(value.split("=", 1) for name, _, value in words if name == "conf")
    known = {one.name.replace("_", "-") for one in attrs.fields(SparkArguments)}
    assert options.keys() <= known | {"engine", "name", "metrics-port", "metrics-host"}
    assert "://" in options["checkpoint"]
    assert conf["spark.kubernetes.container.image"] == container["image"]
    assert conf["spark.driver.host"] == service["metadata"]["name"]
    # The driver is ready once executors have reached it, and they look for it by this name.
    assert "readinessProbe" in container
    assert service["spec"]["publishNotReadyAddresses"] is True
    ports = {conf["spark.driver.port"], conf["spark.driver.blockManager.port"]}
    assert ports == {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports | {options["metrics-port"]} == {
        str(port["containerPort"]) for port in container["ports"]
    }
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
