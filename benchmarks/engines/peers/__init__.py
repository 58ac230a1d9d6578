"""Other libraries: each file answers the tasks with one of them, as its users would."""
