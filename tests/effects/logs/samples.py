"""Small commits and files for the tests of logs; no event in them is ever decoded."""

import json
import os

from effects.logs.file import FileLog
from effects.logs.scan import read_log
from reducers.vocabulary.digests import digest_of

HEADER = b'{"log":"7c0e9d2b41f84a6f","session":"demo"}'


def commit(position, text="x"):
    """The raw value of a commit."""
    text = json.dumps(text, ensure_ascii=False).encode()
    return b'{"at":1764540000000,"position":%d,"events":[{"text":%s}]}' % (position, text)


def commits(first, last, text="x"):
    return [commit(position, text) for position in range(first, last + 1)]


def large(text):
    """A large content with its digest."""
    content = text.encode()
    return digest_of(content), content


def write_log(path, count, text="x"):
    """A closed log of `count` commits; its bytes. Never synced: tests do not lose power."""
    with FileLog.create(path, HEADER, "memory") as log:
        for value in commits(1, count, text):
            log.append(value)
    return path.read_bytes()


def stored(path):
    """The values a reader sees; it neither locks nor writes."""
    with read_log(path) as view:
        return [value for _, value in view.commits]


def everything(folder):
    """Name and bytes of every file below a folder."""
    return {
        os.path.relpath(os.path.join(above, name), folder): read(os.path.join(above, name))
        for above, _, names in os.walk(folder)
        for name in names
    }


def read(path):
    with open(path, "rb") as file:
        return file.read()
