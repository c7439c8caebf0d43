"""What every command has: the common options, JSON on standard output, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from streamlet import errors
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.tools import command as command_module
from streamlet.tools.command import Common, command
from streamlet.tools.main import build
from streamlet.tools.output import CommandOutput

FAILURES = {
    "config": (errors.ConfigError(["a", "b"]), 2),
    "app": (errors.AppNotFoundError("no app"), 3),
    "missing": (errors.NotFoundError("no group"), 3),
    "late": (errors.TimedOutError("late"), 4),
    "refused": (errors.RefusedError("needs --yes"), 5),
    "fenced": (errors.FencedError("fenced"), 6),
    "broker": (errors.BrokerError("away"), 1),
    "interrupt": (KeyboardInterrupt(), 130),
    "bug": (ZeroDivisionError("oops"), 1),
}


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command line with three commands of this test beside the real ones."""
    build()  # so that the real commands are registered before ours
    monkeypatch.setattr(command_module, "REGISTRY", registry := list(command_module.REGISTRY))
    monkeypatch.setattr("streamlet.tools.main.REGISTRY", registry)

    @command("try show")
    def show(common: Common, size: Annotated[int, typer.Option()] = 1) -> None:
        """Show what arrived."""
        common.output.note("a note")
        seen = {"servers": common.bootstrap_servers, "settings": common.settings, "size": size}
        common.output.answer(seen, f"servers: {common.bootstrap_servers} [not markup]")

    @command("try fail")
    def fail(common: Common, how: str) -> None:
        """Fail."""
        raise FAILURES[how][0]

    @command("try check")
    def check(common: Common) -> None:
        """Answer, then say that it was bad."""
        common.output.answer({"violations": ["U1"]}, "U1")
        raise typer.Exit(1)

    return build()


def run(cli: typer.Typer, *words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, words, env=env)


def test_json_is_one_document_on_standard_output_and_the_rest_goes_elsewhere(
    cli: typer.Typer,
) -> None:
    result = run(cli, "try", "show", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "servers": "localhost:9092",
        "settings": {},
        "size": 1,
    }
    assert result.stderr == "a note\n"


def test_people_get_plain_text(cli: typer.Typer) -> None:
    assert run(cli, "try", "show").stdout == "servers: localhost:9092 [not markup]\n"


@pytest.mark.parametrize("how", FAILURES)
def test_an_error_becomes_its_exit_code_and_with_json_the_document(
    cli: typer.Typer, how: str
) -> None:
    error, code = FAILURES[how]
    said = "interrupted" if how == "interrupt" else str(error)
    plain = run(cli, "try", "fail", how)
    assert (plain.exit_code, plain.stdout) == (code, "")
    assert f"error: {said}" in plain.stderr

    with_json = run(cli, "try", "fail", how, "--json")
    assert with_json.exit_code == code
    assert json.loads(with_json.stdout)["error"] == {
        "type": type(error).__name__,
        "message": said,
        "exit_code": code,
    }


def test_who_reaches_no_broker_is_told_once_what_to_look_at(
    cli: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = "Is the broker running, and is the address right (--bootstrap-servers)?"
    for error in (
        TransportError(FailureKind.DISCONNECTED, "cannot reach a:1"),
        errors.UnreachableError(f"no answer from a:1. {advice}"),
    ):
        monkeypatch.setitem(FAILURES, "broker", (error, 1))
        assert run(cli, "try", "fail", "broker").stderr.count(advice) == 1
        told = run(cli, "try", "fail", "broker", "--json")
        assert (told.stderr.count(advice), told.stdout.count(advice)) == (1, 1)
    assert "hint" not in json.loads(told.stdout)["error"]  # the message has it
    monkeypatch.setitem(FAILURES, "broker", (TransportError(FailureKind.DISCONNECTED, "gone"), 1))
    told = run(cli, "try", "fail", "broker", "--json")
    assert json.loads(told.stdout)["error"]["hint"] == advice


def test_who_has_no_token_is_not_sent_to_the_broker(
    cli: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = errors.UnreachableError("no answer from a:1: no token to log in with: it answers 500")
    monkeypatch.setitem(FAILURES, "broker", (error, 1))
    told = run(cli, "try", "fail", "broker")
    assert "it answers 500" in told.stderr
    assert "Is the broker running" not in told.stderr


def test_a_violated_check_answers_and_exits_1(cli: typer.Typer) -> None:
    result = run(cli, "try", "check", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"violations": ["U1"]})


def test_an_unknown_option_is_a_usage_error(cli: typer.Typer) -> None:
    assert run(cli, "try", "show", "--nope").exit_code == 2


def test_every_option_has_a_variable(cli: typer.Typer) -> None:
    env = {
        "STREAMLET_BOOTSTRAP_SERVERS": "a:1",
        "STREAMLET_JSON": "1",
        "STREAMLET_SET": "x.y=1 z=2",
        "STREAMLET_TRY_SHOW_SIZE": "7",
    }
    seen = json.loads(run(cli, "try", "show", env=env).stdout)
    assert seen == {"servers": "a:1", "settings": {"x.y": "1", "z": "2"}, "size": 7}

    seen = json.loads(run(cli, "try", "show", "--bootstrap-servers", "b:2", env=env).stdout)
    assert seen["servers"] == "b:2"


def test_settings_come_from_the_file_and_set_wins(cli: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text(
        "# a comment\n! another\n\nbootstrap.servers = c:3\n"
        "commit.interval.ms=100\nlong=one,\\\n  two\nstate.dir=/a=b\n"
    )
    result = run(
        cli, "try", "show", "--config", str(file), "--set", "commit.interval.ms=5", "--json"
    )
    assert json.loads(result.stdout) == {
        "servers": "c:3",
        "settings": {
            "bootstrap.servers": "c:3",
            "commit.interval.ms": "5",
            "long": "one,two",
            "state.dir": "/a=b",
        },
        "size": 1,
    }


def test_an_address_comes_from_the_strongest_of_its_sources(
    cli: typer.Typer, tmp_path: Path
) -> None:
    file = tmp_path / "app.properties"
    file.write_text("bootstrap.servers=file:4\n")
    sources = {
        "option:1": ["--bootstrap-servers", "option:1"],
        "set:2": ["--set", "bootstrap.servers=set:2"],
        "variable:3": [],
        "file:4": ["--config", str(file)],
    }
    env = {"STREAMLET_BOOTSTRAP_SERVERS": "variable:3"}
    while sources:
        words = [word for given in sources.values() for word in given]
        seen = run(cli, "try", "show", "--json", *words, env=env if "variable:3" in sources else {})
        strongest = next(iter(sources))
        assert json.loads(seen.stdout)["servers"] == strongest
        del sources[strongest]


def test_a_variable_wins_over_the_file_and_set_over_both(
    cli: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "app.properties"
    file.write_text("admin.retries=1\nadmin.debug=all\nsecurity.protocol=SASL_SSL\n")
    monkeypatch.setenv("STREAMLET_ADMIN_RETRIES", "2")
    monkeypatch.setenv("STREAMLET_SECURITY_PROTOCOL", "PLAINTEXT")
    seen: list[Common] = []

    @command("try keep")
    def keep(common: Common) -> None:
        seen.append(common)

    words = ["try", "keep", "--config", str(file), "--set", "security.protocol=SSL"]
    assert run(build(), *words).exit_code == 0
    [common] = seen
    wanted = {"retries": "2", "debug": "all", "security.protocol": "ssl"}
    assert common.client_config() == wanted
    # Workers are given these, and look at the environment themselves.
    assert common.overrides == ["admin.debug=all", "security.protocol=SSL"]


def test_what_is_wrong_in_the_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("num.standby.replicas=1\ncommit.intervall.ms=5\n")
    words = ["describe", "examples.wordcount:app", "--config", str(file)]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 2
    assert f"{file}:2: commit.intervall.ms: unknown setting" in result.stderr


def test_a_file_may_be_a_pipe() -> None:
    """As in ``--config <(print secrets)``: it can be read once."""
    read_end, write_end = os.pipe()
    with open(write_end, "w") as pipe:
        pipe.write("num.standby.replicas=1\n")
    try:
        words = ["describe", "examples.wordcount:app", "--config", f"/dev/fd/{read_end}"]
        assert CliRunner().invoke(build(), words).exit_code == 0
    finally:
        os.close(read_end)


def test_bad_settings_are_reported_all_at_once(cli: typer.Typer) -> None:
    result = run(cli, "try", "show", "--set", "one", "--set", "=two", "--set", "three=3")
    assert result.exit_code == 2
    assert "'one' is not key=value" in result.stderr
    assert "'=two' is not key=value" in result.stderr
    assert "three" not in result.stderr


def test_a_config_file_that_is_not_there_is_bad_input(cli: typer.Typer) -> None:
    assert run(cli, "try", "show", "--config", "/nowhere/at.all").exit_code == 2


def test_security_settings_and_the_admins_own_reach_its_client() -> None:
    given = {"security.protocol": "SSL", "admin.debug": "admin", "commit.interval.ms": "5"}
    options = [(key, value, f"--{key}") for key, value in given.items()]
    common = Common(None, {}, CommandOutput(as_json=False)).with_options(*options)
    assert common.client_config() == {"security.protocol": "ssl", "debug": "admin"}


def test_a_closed_pipe_ends_the_command_without_a_word() -> None:
    """As in ``streamlet ... | head -1``; Python would otherwise complain twice."""
    program = (
        "import sys, typer\n"
        "from streamlet.tools.command import REGISTRY, Common, command\n"
        "@command('flood')\n"
        "def flood(common: Common) -> None:\n"
        "    while True: common.output.tick({}, 'x' * 1000)\n"
        "app = typer.Typer()\n"
        "app.command()(REGISTRY[-1].run)\n"
        "app()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(300) == 1


@pytest.mark.parametrize("redirected", ["<&-", "<&- >&-", "<&- 2>&-"])
def test_standard_streams_may_be_closed(tmp_path: Path, redirected: str) -> None:
    """As by a scheduler: nobody can answer, and what opens next is not taken for a stream."""
    (tmp_path / "words" / "0_1").mkdir(parents=True)
    command = f"{sys.executable} -m streamlet state clean --all --state-dir {tmp_path} {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done.stderr
    if "2>&-" not in redirected:
        assert "no terminal to ask at, and nothing was deleted" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_under_standard_output_is_named(form: list[str]) -> None:
    command = [sys.executable, "-m", "streamlet", "describe", "examples.wordcount:app", *form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamlet", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().count(".") == 2


def test_the_versions_of_all_that_runs_are_told() -> None:
    words = [sys.executable, "-m", "streamlet"]
    done = subprocess.run(
        [*words, "--version", "--verbose"], capture_output=True, text=True, check=True
    )
    parts = [line.split(" (")[0].rsplit(" ", 1) for line in done.stdout.splitlines()]
    told = {name: number for name, number in parts}
    assert told["Python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("streamlet", "librdkafka", "RocksDB", "kafka-python", "msgspec"):
        assert re.fullmatch(r"\d+\.\d+\S*", told[name]), name
    assert "Kafka of streamlet broker" in told
    alone = subprocess.run([*words, "--verbose"], capture_output=True, text=True)
    assert (alone.returncode, "goes with --version" in alone.stderr) == (2, True)


@pytest.mark.parametrize("name", ["a b", ".", "x" * 250, "ä"])
def test_a_topic_that_kafka_would_not_take_is_bad_input(name: str) -> None:
    """Said before a broker is asked, and nothing of the list is made."""
    nobody = ("--bootstrap-servers", "127.0.0.1:1")
    result = CliRunner().invoke(build(), ["topics", "create", "good", name, *nobody])
    assert result.exit_code == 2
    assert "topics create: " in result.stderr


def test_a_broker_whose_data_has_no_place_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ["broker", "start", "--port", "0", "--data-dir", str(tmp_path / "file")]
    result = CliRunner().invoke(build(), words, env={"XDG_STATE_HOME": str(tmp_path)})
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr
    assert "--data-dir says where its data is" in result.stderr


@pytest.mark.parametrize("words", [("status", "a"), ("topics", "list"), ("members", "list", "a")])
def test_an_address_that_cannot_be_is_bad_input(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(build(), [*words, "--bootstrap-servers", "kafka:high"])
    assert result.exit_code == 2
    assert "--bootstrap-servers = 'kafka:high': expected host:port" in result.stderr


def test_a_wrong_address_is_reported_where_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("\nbootstrap.servers=kafka:file\n")
    words = ["status", "a", "--config", str(file)]
    wrong = "expected host:port"
    plain = CliRunner().invoke(build(), words)
    assert f"{file}:2: bootstrap.servers = 'kafka:file': {wrong}" in plain.stderr
    env = {"STREAMLET_BOOTSTRAP_SERVERS": "kafka:var"}
    by_variable = CliRunner().invoke(build(), words, env=env)
    assert f"STREAMLET_BOOTSTRAP_SERVERS = 'kafka:var': {wrong}" in by_variable.stderr
    words += ["--set", "bootstrap.servers=kafka:set"]
    by_set = CliRunner().invoke(build(), words, env=env)
    assert f"--set bootstrap.servers = 'kafka:set': {wrong}" in by_set.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("describe",), "Missing argument"),
        (("topics", "list", "--nope"), "No such option: --nope"),
        (("nowhere",), "No such command 'nowhere'"),
    ],
)
def test_wrong_usage_is_a_json_document_too(words: tuple[str, ...], message: str) -> None:
    command = [sys.executable, "-m", "streamlet", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["exit_code"]) == ("UsageError", 2)
    assert message in error["message"]
    assert message in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamlet"],
        env={"_STREAMLET_COMPLETE": f"source_{shell}", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "streamlet" in done.stdout
