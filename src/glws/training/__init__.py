"""Training: the loop, checkpoints, and the folder a run leaves behind."""
