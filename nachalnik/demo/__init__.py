"""`python -m nachalnik.demo`: one agent session that dies in the middle and loses nothing.

Offline and without a key. The model is a script: its replies stand in `replies/`, byte for byte as
a Chat Completions server sends them, and come over a loopback socket.

__main__.py  the stages, and what is said at each
session.py   the session: a first process that is killed, and a second that goes on
tools.py     the two tools the model calls, as an example of `@tool` and of a reconciler
"""
