"""A database of any size to try mailhub with, and to measure it."""
