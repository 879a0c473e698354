"""attune from Python: what the benches and the worker need of the C library."""
