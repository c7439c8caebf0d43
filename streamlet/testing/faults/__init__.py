"""A proxy that makes requests to a Kafka broker fail on purpose."""
