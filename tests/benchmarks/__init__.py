"""Measurements of speed, as ratios of things timed in turns on the same machine: `make bench`."""
