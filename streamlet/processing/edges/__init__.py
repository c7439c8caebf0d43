"""Exact through repartition topics: origins on each record, and a filter before its reader."""
