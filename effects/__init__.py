"""The shell of nachalnik: carries out what the core announces, and brings the answers in."""

DISTRIBUTION = "nachalnik 0.1.0"
"""Which distribution this package came with; see `reducers.DISTRIBUTION`."""
