"""Time and memory of every engine, next to what else there is; `glws bench` is its command."""
