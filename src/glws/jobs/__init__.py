"""Jobs: from a configuration to a run folder with a trained network, its scores, its report; and what uses a run."""
