"""Records in the framing of a schema registry: Avro, JSON Schema and Protobuf.

``avro``, ``json`` and ``protobuf`` make serdes; ``Registry`` says where the schemas are.
"""

from streamlet.registry.avro_records import avro
from streamlet.registry.client import Registry
from streamlet.registry.json_records import json
from streamlet.registry.protobuf_records import protobuf
from streamlet.registry.schemas import RegistrySchema, SchemaReference, Schemas

__all__ = ["Registry", "RegistrySchema", "SchemaReference", "Schemas", "avro", "json", "protobuf"]
