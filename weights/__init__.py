"""Weights: where checkpoints lie, and how the embedded default gets here."""
