"""Evaluation, benchmarks and pictures: everything that is not the package."""
