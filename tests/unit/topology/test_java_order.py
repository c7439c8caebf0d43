"""Names come in the order of Java's hash tables."""

from __future__ import annotations

from streamlet.topology.java_order import hash_set_order, printed_order, string_hash


def test_hash_of_a_text_is_that_of_java() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99_162_322
    assert string_hash("polygenelubricants") == 1 << 31  # Java's smallest int
    assert string_hash("\N{GRINNING FACE}") == 31 * 0xD83D + 0xDE00  # two units of UTF-16


def test_set_gives_its_names_by_bucket_then_by_creation() -> None:
    assert hash_set_order(["b", "q", "a", "b"]) == ["q", "a", "b"]  # 113, 97: one bucket of sixteen
    assert hash_set_order(["b", "a", "q"]) == ["a", "q", "b"]


def test_table_doubles_when_three_quarters_are_used() -> None:
    twelve = [chr(code) for code in range(ord("a"), ord("a") + 12)]
    clash = ["q", *twelve[:11]]  # q is in the bucket of a among sixteen, not among thirty-two
    assert hash_set_order(clash)[0] == "q"
    assert hash_set_order([*clash, "l"])[0] == "a"
    assert hash_set_order(clash, copied=True)[0] == "a"


def test_list_keeps_the_order_of_the_ways_known_when_it_was_made() -> None:
    parents: dict[str, list[str]] = {
        "KSTREAM-SOURCE-0000000000": [],
        "KSTREAM-WINDOWED-0000000001": ["KSTREAM-SOURCE-0000000000"],
        "KSTREAM-WINDOWED-0000000002": ["KSTREAM-SOURCE-0000000000"],
        "KSTREAM-JOINTHIS-0000000003": ["KSTREAM-WINDOWED-0000000001"],
        "KSTREAM-JOINOTHER-0000000004": ["KSTREAM-WINDOWED-0000000002"],
        "KSTREAM-MERGE-0000000005": [
            "KSTREAM-JOINTHIS-0000000003",
            "KSTREAM-JOINOTHER-0000000004",
        ],
        "KSTREAM-SINK-0000000006": ["KSTREAM-MERGE-0000000005"],
    }
    order = printed_order(parents)
    assert order.parents["KSTREAM-MERGE-0000000005"] == (  # as Kafka Streams 4.1.1 prints it
        "KSTREAM-JOINTHIS-0000000003",
        "KSTREAM-JOINOTHER-0000000004",
    )
    assert order.nodes[:3] == tuple(list(parents)[:3])
    assert order.children["KSTREAM-SINK-0000000006"] == ()
