"""Event logs: where commits are kept, as bytes. Nothing in here decodes an event.

port.py      what a log is to the kernel, and its errors
memory.py    a log that dies with the process
file.py      the JSON Lines file; its parts:
  syscalls.py  the one door to the operating system
  lock.py      one writer a log
  scan.py      reading and verifying; for readers too, who never lock and never write
  tail.py      what a crash left behind the last whole commit
  contents.py  large contents, beside the log
  cache.py     the state cache, beside the log
"""
