"""Values of options that stand for nothing: empty texts, numbers that are none or too large."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from streamlet.tools.main import build


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["topics", "create", "good", "--partitions=9999999999"], "--partitions"),
        (["topics", "create", "good", "--replication=99999"], "--replication"),
        (["topics", "create", ""], "NAME… is empty"),
        (["dev", ""], "APP is empty"),
        (["topics", "read", "t", "--limit", str(2**63)], "--limit = 9223372036854775808: expected"),
        (["run", "a:b", "--processes=257"], "--processes"),
        (["status", "a", "--advice", "--advice-window=1e10"], "--advice-window"),
        (["run", "a:b", "--capacity=nan"], "--capacity = nan: expected a number"),
        (["scale-down", "a", "--percent", "half"], "'half': expected a number, such as 50"),
        (["run", "a:b", "--name="], "--name is empty"),
        (["run", "a:b", "--tag", "a=b", "--tag", " "], "--tag is empty"),
        (["run", "a:b", "--state-dir="], "a path is empty"),
        (["status", "a", "--bootstrap-servers="], "--bootstrap-servers is empty"),
    ],
)
def test_values_that_an_option_cannot_have_are_bad_input(words: list[str], what: str) -> None:
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 2
    assert what in result.stderr


@pytest.mark.parametrize(
    ("variable", "value", "what"),
    [
        ("STREAMLET_STATUS_WATCH", "maybe", "'STREAMLET_STATUS_WATCH' (--watch)"),
        ("STREAMLET_JSON", "maybe", "'STREAMLET_JSON' (--json)"),
        (
            "STREAMLET_STATUS_ADVICE_WINDOW",
            "0",
            "'STREAMLET_STATUS_ADVICE_WINDOW' (--advice-window",
        ),
        ("STREAMLET_BOOTSTRAP_SERVERS", " ", "STREAMLET_BOOTSTRAP_SERVERS is empty"),
        ("STREAMLET_LOG_LEVEL", "loud", "'STREAMLET_LOG_LEVEL' (--log-level)"),
        ("STREAMLET_SET", "foo", "STREAMLET_SET: 'foo' is not key=value"),
        (
            "STREAMLET_SET",
            "num.standby.replicas=x",
            "STREAMLET_SET num.standby.replicas = 'x': exp",
        ),
        ("STREAMLET_SET", "no.such=1", "STREAMLET_SET no.such: unknown setting"),
        ("STREAMLET_SET", "bootstrap.servers=/", "STREAMLET_SET bootstrap.servers = '/': expected"),
    ],
)
def test_a_wrong_value_of_a_variable_names_the_variable(
    variable: str, value: str, what: str
) -> None:
    result = CliRunner(env={variable: value}).invoke(build(), ["status", "a"])
    assert result.exit_code == 2
    assert what in " ".join(result.stderr.replace("│", " ").split())
