"""Benchmarks against a real broker; ``python -m bench --help`` lists them, README.md says how."""
