"""``streamlet topics read`` and ``topics write`` on a broker, as a person or a script runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.tools.main import build
from streamlet.types import TopicPartition
from tests.terminals import Terminal

pytestmark = pytest.mark.integration

PATIENCE_S = 300


class Topic:
    """A topic of its own, and the commands on it."""

    def __init__(self, servers: str, folder: Path, partitions: int = 1, **config: str) -> None:
        self.name = f"by-hand-{uuid4().hex[:8]}"
        self.servers = servers
        self.folder = folder
        self.admin = KafkaAdmin(servers)
        self.admin.create_topics([NewTopic(self.name, partitions, 1, tuple(config.items()))])

    def command(self, what: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "streamlet", "topics", what, self.name, *words]

    @property
    def env(self) -> dict[str, str]:
        here = str(Path(__file__).resolve().parents[2])
        return {**os.environ, "PYTHONPATH": here, "STREAMLET_BOOTSTRAP_SERVERS": self.servers}

    def run(self, what: str, *words: str, exit_code: int = 0) -> Result:
        """Run a command in this process."""
        env = {"STREAMLET_BOOTSTRAP_SERVERS": self.servers}
        done = CliRunner().invoke(build(), ["topics", what, self.name, *words], env=env)
        assert done.exit_code == exit_code, done.stderr
        return done

    def write(self, text: str, *words: str, exit_code: int = 0) -> Result:
        """Write the lines of a file."""
        return self.run("write", self.file(text), *words, exit_code=exit_code)

    def write_input(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Write the lines of standard input."""
        command = self.command("write", *words)
        return subprocess.run(
            command, env=self.env, input=text, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def read(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("read", "--json", *words).stdout.splitlines()]

    def file(self, text: str, name: str = "records.txt") -> str:
        """The path of a file with this text."""
        (self.folder / name).write_text(text)
        return str(self.folder / name)


@pytest.fixture
def topic(bootstrap_servers: str, tmp_path: Path) -> Topic:
    return Topic(bootstrap_servers, tmp_path)


def test_lines_are_written_and_read_again(topic: Topic) -> None:
    assert topic.write("to be\nor not\n").stdout == f"wrote 2 records to {topic.name}\n"
    assert topic.run("read").stdout == "null\tto be\nnull\tor not\n"
    first, second = topic.read()
    assert second.pop("timestamp") >= first.pop("timestamp") > 1_577_836_800_000
    shape = {"topic": topic.name, "partition": 0, "key": None, "headers": []}
    assert [first, second] == [
        {**shape, "offset": 0, "value": "to be"},
        {**shape, "offset": 1, "value": "or not"},
    ]


def test_keys_decide_on_partitions_as_in_kafka(bootstrap_servers: str, tmp_path: Path) -> None:
    topic = Topic(bootstrap_servers, tmp_path, partitions=4)
    text = "".join(f"key-{number}:{number}\n" for number in range(40))
    written = topic.write(text, "--format", "key-value", "--value", "int", "--json")
    assert json.loads(written.stdout) == {"topic": topic.name, "records": 40}
    found = topic.read("--value", "int")
    assert {record["key"]: record["value"] for record in found} == {
        f"key-{number}": number for number in range(40)
    }
    assert [record["partition"] for record in found] == [
        partition_of(record["key"].encode(), 4) for record in found
    ]
    assert json.loads(topic.run("describe", "--json").stdout)["shares"]["murmur2_random"] == 1


def test_bytes_without_a_type_lead_to_the_option_that_gives_it(topic: Topic) -> None:
    topic.write("1:2\n300:4\n", "--format", "key-value", "--key", "int", "--value", "int16")
    done = topic.run("read")
    assert done.stderr == (
        "some keys are no text: give their type by --key (int or float; in windows windowed:T or, "
        "of sessions, session:T)\nsome values are no text: give their type by --value (int16)\n"
    )
    assert "keys" not in topic.run("read", "--key", "int").stderr
    assert topic.run("read", "--key", "int", "--value", "int16").stderr == ""
    assert topic.run("read", "--key", "int", "--value", "int16").stdout == "1\t2\n300\t4\n"
    other = Topic(topic.servers, topic.folder)
    other.write("a:2\n", "--format", "key-value", "--value", "float")
    assert other.run("read").stderr == (
        "some values are no text: give their type by --value (int or float)\n"
    )


def test_keys_lie_by_the_partitioner_that_is_named(bootstrap_servers: str, tmp_path: Path) -> None:
    topic = Topic(bootstrap_servers, tmp_path, partitions=4)
    assert "have no keys" in topic.run("describe").stdout
    text = "".join(f"key-{number}:{number}\n" for number in range(40))
    topic.write(text, "--format", "key-value", "--partitioner", "crc32")
    told = topic.run("describe").stdout
    assert "100.0% of 40 keys lie by consistent_random" in told
    assert 'give partitioner="consistent_random" where an application reads it' in told
    topic.write(text, "--format", "key-value")
    assert "they were written by several partitioners" in topic.run("describe").stdout
    refused = topic.write(text, "--partitioner", "md5", exit_code=2)
    assert "--partitioner: 'md5' is no partitioner of a topic; there are" in refused.stderr


def test_what_was_read_as_json_is_written_again(topic: Topic) -> None:
    documents = [
        {"key": "a", "value": {"n": 1}, "timestamp": 5, "headers": [["h", "x"], ["none", None]]},
        {"key": None, "value": None, "timestamp": 7, "headers": []},
    ]
    text = "".join(f"{json.dumps(document)}\n" for document in documents)
    topic.write(text, "--format", "json", "--value", "json")
    read = topic.run("read", "--value", "json", "--json").stdout
    topic.write(read, "--format", "json", "--value", "json")
    found = topic.read("--value", "json")
    assert [record["offset"] for record in found] == [0, 1, 2, 3]
    assert [{name: record[name] for name in documents[0]} for record in found] == documents * 2
    shown = topic.run("read", "--value", "json", "--headers", "--limit", "1").stdout
    assert shown == 'a\t{"n": 1}\th:x,none:null\n'


def test_csv_is_written(topic: Topic) -> None:
    topic.write("key,value\na,1.5\nb,2\n", "--format", "csv", "--value", "float")
    assert topic.run("read", "--value", "float").stdout == "a\t1.5\nb\t2.0\n"


def test_a_record_of_another_type_is_shown_in_base64(topic: Topic) -> None:
    topic.write("a:1\n", "--format", "key-value", "--value", "int")
    topic.write("b:abc\n", "--format", "key-value")
    good, bad = topic.read("--value", "int")
    assert (good["value"], "error" in good) == (1, False)
    assert bad["value"] == "YWJj"
    assert bad["error"].startswith("value: int: cannot decode b'abc'")


@pytest.mark.parametrize(
    ("where", "expected"),
    [("earliest", "abcd"), ("2", "cd"), ("9", ""), ("latest", ""), ("1970-01-01T00:00:03", "cd")],
)
def test_reading_begins_where_it_is_asked_to(topic: Topic, where: str, expected: str) -> None:
    rows = "".join(f"{letter},{number}000\n" for number, letter in enumerate("abcd", 1))
    topic.write(f"value,timestamp\n{rows}", "--format", "csv")
    done = topic.run("read", "--from", where)
    assert done.stdout == "".join(f"null\t{letter}\n" for letter in expected)
    said = "" if expected else f"no record in {topic.name} from {where} on\n"
    assert done.stderr == said


def test_reading_ends_at_a_limit(topic: Topic) -> None:
    topic.write("a\nb\nc\n")
    assert [record["value"] for record in topic.read("--limit", "2")] == ["a", "b"]


def test_reading_ends_where_the_last_offset_is_no_record(topic: Topic) -> None:
    """A transaction ends with a marker, which takes an offset."""
    settings = {"bootstrap.servers": topic.servers, "transactional.id": topic.name}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic.name, b"a")
    producer.commit_transaction(PATIENCE_S)
    assert [record["value"] for record in topic.read()] == ["a"]


@contextmanager
def following(topic: Topic, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        topic.command("read", "--follow", *words),
        env=topic.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_following_shows_new_records_until_ctrl_c(topic: Topic) -> None:
    topic.write("old\n")
    with following(topic) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "null\told\n"
        topic.write("new\n")
        assert process.stdout.readline() == "null\tnew\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_following_ends_at_a_limit(topic: Topic) -> None:
    with following(topic, "--limit", "2", "--json") as process:
        topic.write("a\nb\nc\n")
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert [json.loads(line)["value"] for line in out.splitlines()] == ["a", "b"]
        assert process.returncode == 0


@pytest.mark.parametrize("what", ["read", "write"])
def test_a_topic_that_is_not_there_is_named_with_those_called_alike(
    topic: Topic, what: str
) -> None:
    name, topic.name = topic.name, f"{topic.name}x"
    words = [topic.file("a\n")] if what == "write" else []
    error = topic.run(what, *words, exit_code=3).stderr
    assert f"there is no topic {name}x, did you mean {name}" in error
    assert f"streamlet topics create {name}x" in error
    assert topic.name not in topic.admin.topics()


def test_a_file_with_bad_lines_is_not_written_at_all(topic: Topic) -> None:
    lines = "a:1\nb\nc:3\nd:x\n"
    failed = topic.write(lines, "--format", "key-value", "--value", "int", exit_code=2)
    name = topic.folder / "records.txt"
    assert failed.stderr.splitlines() == [
        f"error: {name}, line 2: expected key:value, got 'b'",
        f"{name}, line 4: value: int: expected a whole number, got 'x'",
        "nothing was written",
    ]
    assert topic.read() == []


def test_a_terminal_shows_how_far_a_file_is(topic: Topic) -> None:
    file = topic.file("".join(f"{number}\n" for number in range(2_000)))
    words = ["topics", "write", topic.name, file, "--bootstrap-servers", topic.servers]
    with closing(Terminal(words, columns=200)) as terminal:
        assert terminal.end() == 0
        assert f"checking {file}" in terminal.text
        assert f"500 records sent to {topic.name}" in terminal.text
        assert f"wrote 2,000 records to {topic.name}" in terminal.text


def test_what_is_no_file_is_refused_with_the_way_that_works(topic: Topic) -> None:
    error = topic.run("write", "/dev/null", exit_code=2).stderr
    assert "/dev/null: it is no file; pipe it to standard input" in error
    error = topic.run("write", "/nowhere", exit_code=2).stderr
    assert "/nowhere: there is no such file" in error


def test_keys_in_windows_are_shown_and_written_again(topic: Topic) -> None:
    keys = [{"key": "ann", "start": 600_000}, {"key": "bob", "start": 0}]
    text = "".join(json.dumps({"key": key, "value": "1"}) + "\n" for key in keys)
    topic.write(text, "--format", "json", "--key", "windowed:str")
    assert [record["key"] for record in topic.read("--key", "windowed:str")] == keys
    [first, _] = topic.run("read", "--key", "windowed:str").stdout.splitlines()
    assert first == '{"key": "ann", "start": 600000}\t1'


def test_standard_input_is_written_up_to_its_first_bad_line(topic: Topic) -> None:
    failed = topic.write_input("1\n2\nthree\n4\n", "--value", "int")
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == [
        f"2 records before that were written to {topic.name}",
        "error: standard input, line 3: value: int: expected a whole number, got 'three'",
    ]
    assert [record["value"] for record in topic.read("--value", "int")] == [1, 2]


def test_standard_input_is_written_as_it_comes(topic: Topic) -> None:
    with subprocess.Popen(
        topic.command("write"),
        env=topic.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as writer:
        try:
            assert writer.stdin is not None
            print("first", file=writer.stdin, flush=True)
            with following(topic, "--limit", "1") as reader:
                assert reader.communicate(timeout=PATIENCE_S)[0] == "null\tfirst\n"
            writer.send_signal(signal.SIGINT)
            writer.wait(PATIENCE_S)  # before its input ends, which would end it as well
            out, error = writer.communicate()
        finally:
            writer.kill()
    assert (writer.returncode, out) == (130, "")
    assert f"1 record before that was written to {topic.name}" in error


def test_a_record_that_the_topic_does_not_take_is_named_by_its_line(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = Topic(bootstrap_servers, tmp_path, **{"max.message.bytes": "1000"})
    failed = topic.write(f"a\n{'x' * 2000}\nc\n", exit_code=1)
    assert f"1 record before that was written to {topic.name}" in failed.stderr
    assert f"records.txt, line 2: a record to {topic.name} was refused" in failed.stderr
    assert [record["value"] for record in topic.read()] == ["a"]


def test_a_record_without_a_key_that_the_topic_wants_is_named_with_its_line(topic: Topic) -> None:
    strict = Topic(topic.servers, topic.folder, **{"cleanup.policy": "compact"})
    failed = strict.write("no key\n", exit_code=1)
    assert f"0 records before that were written to {strict.name}" in failed.stderr
    assert "line 1: a record" in failed.stderr
    assert f"it has no key, and {strict.name} is compacted" in failed.stderr
    assert strict.read() == []


def test_a_time_that_the_topic_refuses_is_named_with_its_line(topic: Topic) -> None:
    strict = Topic(topic.servers, topic.folder, **{"message.timestamp.before.max.ms": "1000"})
    failed = strict.write("value,timestamp\nold,5\n", "--format", "csv", exit_code=1)
    assert f"0 records before that were written to {strict.name}" in failed.stderr
    assert "line 2" in failed.stderr
    assert "message.timestamp.before.max.ms" in failed.stderr
    assert strict.read() == []


def test_records_deleted_before_an_offset_are_passed(topic: Topic) -> None:
    topic.write("a\nb\n")
    partition = TopicPartition(topic.name, 0)
    topic.admin.delete_records({partition: 1})
    while topic.admin.start_offsets([partition])[partition] < 1:
        pass
    assert [record["value"] for record in topic.read("--from", "0")] == ["b"]


def test_the_producers_of_applications_and_this_one_agree(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = Topic(bootstrap_servers, tmp_path, partitions=8)
    keys = [f"k{number}" for number in range(20)]
    sink = KafkaSink(bootstrap_servers)
    sink.send(OutgoingRecords(topic.name, [key.encode() for key in keys], [b"x"] * len(keys)))
    sink.flush(10_000)
    sink.close()
    topic.write("".join(f"{key}:y\n" for key in keys), "--format", "key-value")
    places: dict[str, set[int]] = {}
    for record in topic.read():
        places.setdefault(record["key"], set()).add(record["partition"])
    assert sorted(places) == sorted(keys)
    assert all(len(place) == 1 for place in places.values())


@pytest.mark.parametrize(
    "words", [("topics", "list"), ("reset", "an-app"), ("topics", "read", "x")]
)
def test_a_wrong_protocol_is_answered_by_one_line(
    bootstrap_servers: str, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamlet", *words, "--set", "security.protocol=ssl"],
        env={**os.environ, "STREAMLET_BOOTSTRAP_SERVERS": bootstrap_servers},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {bootstrap_servers} does not speak TLS")
