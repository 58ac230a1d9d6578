"""The others: each file answers our tasks with one other library, as its users would."""
