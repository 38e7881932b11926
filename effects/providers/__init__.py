"""Providers: models behind a wire, one folder a dialect.

http.py      one server: the connection, and what can go wrong with it, as failures
sse.py       server-sent events, with what the library leaves to its caller
scripted.py  replies written down beforehand, for tests, demos and examples
"""
