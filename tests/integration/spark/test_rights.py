"""Each right that a query needs is taken away in turn, at a broker that asks for rights.

The cases are the lines of the table in ``docs/operations/rights.md``, for Java's connector and our
own. The driver finds what it may not even see; what may be seen is refused to the executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from streamlet.config import Settings
from streamlet.errors import AuthenticationError, BrokerError, SparkFailedError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.rights import Right
from streamlet.spark import start
from streamlet.spark.progress import follow
from tests.integration.rights_table import rows
from tests.integration.secured import SecuredBroker, secured_broker
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

TOPICS = {"inputs": "lines", "outputs": "word-counts"}
NEEDED = [
    Right(right, "topic", TOPICS[on])
    for row in rows()
    if row.who == ("Spark",) and row.without == "refused"
    for on in row.on
    for right in row.rights
]
LEAST = "least"
#: Users with all rights but one: of that topic they have nothing, or may see it.
LACKING = {
    f"{one.operation}-{sees}": (
        one,
        [attrs.evolve(one, operation="DESCRIBE")] if sees else [],
    )
    for one in NEEDED
    for sees in (False, True)
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("tls"), [LEAST, *LACKING]) as made:
        admin = KafkaAdmin(made.open_door)
        admin.create_topics([NewTopic(topic, 1) for topic in TOPICS.values()])
        admin.close()
        words.produce(made.open_door, ["a"])
        made.allow(
            {LEAST: NEEDED}
            | {
                user: [one for one in NEEDED if one != taken] + instead
                for user, (taken, instead) in LACKING.items()
            }
        )
        yield made


def run(spark: SparkSession, login: dict[str, str], folder: Path) -> None:
    query = start(
        words.COPYING,
        spark,
        checkpoint=folder,
        trigger="available-now",
        settings=Settings.load(login),
    )
    try:
        follow(query)
    finally:
        query.stop()


def test_a_query_needs_no_more_than_the_table_has(
    spark: SparkSession, broker: SecuredBroker, tmp_path: Path
) -> None:
    assert len(NEEDED) == 2
    run(spark, broker.login(LEAST), tmp_path)


@pytest.mark.parametrize("user", ["READ-False", "WRITE-False", "READ-True"])
def test_a_query_names_the_right_that_is_missing_and_does_not_begin_again(
    spark: SparkSession, broker: SecuredBroker, user: str, tmp_path: Path
) -> None:
    taken, sees = LACKING[user]
    with pytest.raises(SparkFailedError if sees else BrokerError) as refused:
        run(spark, broker.login(user), tmp_path)
    assert str(taken) in str(refused.value)
    assert taken.granted_by in str(refused.value)
    if isinstance(refused.value, SparkFailedError):
        assert not refused.value.by_chance, "it would begin again"


def test_a_query_names_a_password_that_is_refused(
    spark: SparkSession, broker: SecuredBroker, tmp_path: Path
) -> None:
    with pytest.raises(AuthenticationError, match="Authentication failed") as refused:
        run(spark, broker.login(LEAST, "open-sesame"), tmp_path)
    assert "open-sesame" not in str(refused.value)
