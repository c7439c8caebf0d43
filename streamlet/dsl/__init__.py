"""The language: streams and tables in Kafka Streams' words, and their operators on batches."""
