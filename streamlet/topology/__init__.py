"""The topology as values: nodes, subtopologies, internal topics, descriptions."""
