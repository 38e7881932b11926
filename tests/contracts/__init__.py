"""Promises of the whole project: purity of the core, content of the wheel."""
