"""Small programs that run as they stand: `python -m nachalnik.examples.first`, and `embedding`."""
