"""What is to be done, as values: nodes, subtopologies, internal topics, descriptions."""
