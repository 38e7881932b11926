"""Event logs: where commits are kept, as bytes. Nothing in here decodes an event.

port.py      what a log is to the kernel, and its errors
memory.py    a log that dies with the process
file.py      the JSON Lines file as its owner has it: appending, syncing, closing; its parts:
  syscalls.py  the one door to the operating system
  lines.py     one pass over a file's lines, header and verified commits; owner and readers share it
  opening.py   creating and opening: the lock, the header, the cache, the tail
  lock.py      one writer a log
  tail.py      what a crash left behind the last whole commit
  contents.py  large contents, beside the log
  cache.py     the state cache, beside the log
scan.py      the same file for readers only, who never lock and never write
"""
