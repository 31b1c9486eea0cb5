"""Datasets as files."""
