"""Random histories of edges whose records wait for their writer's commit."""
