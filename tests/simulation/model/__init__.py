"""The hand-over protocol as an explicit-state model: every interleaving, shortest traces.

An executable specification. It says what members, the coordinator and a changelog may do one step
at a time, and ``search`` tries all of it within a bound on faults. Each rule of the protocol is a
switch in ``rules``; with one switched off the search must find the harm that the rule prevents
(``cases``), so a rule that is no longer needed, or no longer enough, shows.

Where the project has a rule as pure code the model calls that code: who is bound by which claim
(``assignor.claims``), which changelog records count (``state.changelog``), when a mark is meant for
me (``coordinator.commit_metadata``).

* One task, three members A B C, at most one of each at a time. ``values`` has the state.
* ``broker``: the classic coordinator, commits and transactions as group-client.md found them.
* ``leader``: every plan that the claims allow. The leader may choose any of them.
* ``members``, ``assignments``, ``commits``: what a member does; ``faults``: what happens to it.
* ``changelog``: what was written and what a reader makes of it. ``properties``: what must hold.
* ``search``: breadth first, with traces and liveness; ``cases``: bounds, and V1 to V12.
* ``type_migration``: changing the protocol type (V13), a small model of its own.
* ``folders``: commit numbers with several keys, two hosts and their folders (N1 to N6), another;
  ``folder_cases`` has its bounds and what each rule is for.
* ``transactions``: commits by transactions with requests that arrive late, another.

Members run at their own pace: a zombie is a member that is not scheduled while the broker expires
it, so every pause is an interleaving. There is no time; what time would do is a fault.

``python -m tests.simulation.model --help`` runs the long searches.
"""
