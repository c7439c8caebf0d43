"""One application for each kind of window; each file says how to run it."""
