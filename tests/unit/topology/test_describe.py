"""The text is what Kafka Streams prints for the same topology."""

from __future__ import annotations

from streamlet.app import App
from streamlet.topology.describe import as_json, as_mermaid, as_text

# As published with Kafka's own word count example; the trailing blank line is part of it.
WORD_COUNT = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [streams-plaintext-input])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-store-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-store-repartition-filter (stores: [])
      --> counts-store-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-store-repartition-sink (topic: counts-store-repartition)
      <-- counts-store-repartition-filter

  Sub-topology: 1
    Source: counts-store-repartition-source (topics: [counts-store-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts-store])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-store-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: streams-wordcount-output)
      <-- KTABLE-TOSTREAM-0000000007

"""


def word_count() -> App:
    app = App("streams-wordcount")
    lines = app.stream("streams-plaintext-input", key=str, value=str)
    words = lines.flat_map_values(str.split, value=str)
    counts = words.group_by(lambda _, word: word, key=str).count(store="counts-store")
    counts.to_stream().to("streams-wordcount-output")
    return app


def test_the_text_is_kafkas() -> None:
    assert as_text(word_count().topology()) == WORD_COUNT


def test_a_leaf_leads_to_none_and_several_children_are_listed() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.foreach(print)
    stream.filter(lambda k, v: True).to("out")
    text = as_text(app.topology())
    assert "--> KSTREAM-FILTER-0000000002, KSTREAM-FOREACH-0000000001\n" in text
    assert "Processor: KSTREAM-FOREACH-0000000001 (stores: [])\n      --> none\n" in text


def test_json_has_the_serdes_and_the_topics_of_the_broker() -> None:
    described = as_json(word_count().topology())
    assert described["source_topics"] == ["streams-plaintext-input"]
    second = described["subtopologies"][1]
    assert second["repartition_topics"] == ["streams-wordcount-counts-store-repartition"]
    assert second["stores"] == [
        {
            "name": "counts-store",
            "key": "str",
            "value": "int",
            "persistent": True,
            "changelog": "streams-wordcount-counts-store-changelog",
        }
    ]


def test_json_says_which_repartitions_are_exact() -> None:
    topic = "streams-wordcount-counts-store-repartition"
    assert as_json(word_count().topology())["repartitions"] == [
        {"topic": topic, "exact": True, "kind": "exact", "reason": None}
    ]


def test_mermaid_draws_each_node_once_and_each_topic_between() -> None:
    drawn = as_mermaid(word_count().topology())
    assert drawn.startswith("flowchart TD\n")
    assert drawn.count('["KSTREAM-AGGREGATE-0000000003"]') == 1
    assert drawn.count('{{"counts-store-repartition"}}') == 1
    assert drawn.count('[("counts-store")]') == 1
