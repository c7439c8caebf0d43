"""A whole group in memory: N real members, a fake coordinator, changelogs and disks, one clock.

``read_scenario`` reads a file, ``simulate`` plays it, ``table`` shows what happened,
``playback_page`` makes a page that shows it step by step;
``random_history`` makes scenarios up until one breaks a rule.
"""

from streamlet.testing.simulation.playback import playback_page
from streamlet.testing.simulation.random_history import RandomRun, random_run
from streamlet.testing.simulation.reading import ScenarioError
from streamlet.testing.simulation.report import table
from streamlet.testing.simulation.run import Simulation, SimulationResult, simulate
from streamlet.testing.simulation.scenario import Scenario, parse_scenario, read_scenario

__all__ = [
    "RandomRun",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "SimulationResult",
    "parse_scenario",
    "playback_page",
    "random_run",
    "read_scenario",
    "simulate",
    "table",
]
