"""Time and memory of every engine, next to other libraries: `python -m benchmarks`."""
