"""Topics by hand: records as text and as JSON, read and written by a command."""

#: The types of keys and values that a command takes, for help and messages.
TYPE_NAMES = "str, int, int32, int16, float, float32, bytes, json or avro:FILE"
#: Those of keys besides.
WINDOWED_NAMES = "windowed:T or, of sessions, session:T"
