"""Helpers for every layer: argument checks, atomic files, text and JSON, splits, the environment."""
