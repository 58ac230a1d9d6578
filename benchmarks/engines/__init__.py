"""Time and memory of every engine, next to what else there is; `python -m benchmarks` is its command."""
