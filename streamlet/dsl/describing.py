"""The topology of an application, finished or as it is so far."""

from __future__ import annotations

from streamlet.arguments import calls_told_by_form
from streamlet.config import Settings
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.processors.wrapping import ProcessorWrapper, named_wrapper, with_wrapper
from streamlet.topology.describe import as_optimized_text
from streamlet.topology.drawing import picture_of
from streamlet.topology.explicit_names import check_explicit_names
from streamlet.topology.graph import Topology


@calls_told_by_form
class Describing:
    """The part of ``App`` that shows its topology."""

    _builder: Builder
    settings: Settings
    #: The program's hook around nodes; the setting ``processor.wrapper`` outranks it.
    processor_wrapper: ProcessorWrapper | None

    def topology(self, settings: Settings | None = None) -> Topology:
        """The finished topology, as ``settings`` or the program's have it; nothing can be added.

        Raises:
            TopologyError: there is nothing to run, or names were made up and
                ``ensure.explicit.internal.resource.naming`` is on.
            ConfigError: ``processor.wrapper`` does not lead to one.
        """
        chosen = settings or self.settings
        topology = self._builder.graph.freeze(chosen.topology_optimization)
        if chosen.ensure_explicit_internal_resource_naming:
            check_explicit_names(topology)
        named = chosen.processor_wrapper
        wrapper = self.processor_wrapper if named is None else named_wrapper(named)
        return topology if wrapper is None else with_wrapper(topology, wrapper)

    def describe(self) -> str:
        """The topology so far, as Kafka Streams' ``Topology.describe()`` prints it.

        More can be added afterwards. ``streamlet describe`` prints the same of a program.

        Raises:
            TopologyError: it reads no topic yet, or cannot be built.
        """
        return as_optimized_text(self._builder.graph.preview(self.settings.topology_optimization))

    def _repr_html_(self) -> str:
        """The topology so far as a picture, for notebooks."""
        return picture_of(self._builder.graph, self.settings.topology_optimization)
