"""Applications to read and to run: ``wordcount`` first, then ``flights``."""
