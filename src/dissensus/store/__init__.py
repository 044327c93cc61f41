"""What was asked and what came of it, on disk: specs, runs, locks, checkpoints."""
