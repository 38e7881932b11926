"""Tools: a typed Python function becomes one in a line. Nothing here is registered by itself."""
