"""Weft against siw."""
