"""Commits by transactions as they ship, over a log with transactions and a broker that errs."""
