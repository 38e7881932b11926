"""A disk that forgets what was not synced: what a log finds after the power was lost.

Bytes of a file are durable up to its last fsync, names of a folder up to the folder's. What was
written since may be there or not; `Disk.image` chooses, and the worst choice must still open.
"""

import os
from pathlib import Path

from tests.effects.logs.faults import Faults


class Disk(Faults):
    """Notes what is durable, call by call; after each call `watch` is called."""

    def __init__(self, root, watch):
        super().__init__()
        self.root = Path(root)
        self.watch = watch
        self.folders = {}  # fd -> folder, for those opened as folders
        self.bytes = {}  # inode -> durable bytes
        self.names = {}  # folder -> {name: inode, or None for a folder}

    def pass_on(self, name, call, arguments):
        is_new = name == "open" and not os.path.exists(arguments[0])
        result = super().pass_on(name, call, arguments)
        match name:
            case "open" if os.path.isdir(arguments[0]):
                self.folders[result] = arguments[0]
            case "open" if is_new:
                self.bytes[os.fstat(result).st_ino] = b""
            case "close":
                self.folders.pop(arguments[0], None)
            case "fsync" if arguments[0] in self.folders:
                self.keep_names(self.folders[arguments[0]])
            case "fsync":
                found = os.fstat(arguments[0])
                self.bytes[found.st_ino] = inode_bytes(arguments[0], found.st_size)
        self.watch(self)
        return result

    def keep_names(self, folder):
        entries = os.scandir(folder)
        self.names[folder] = {one.name: None if one.is_dir() else one.inode() for one in entries}

    def image(self, share):
        """Name and bytes of each file after a loss of power, relative to the root.

        `share` of the bytes written since a file's last fsync have arrived all the same.
        """
        files = {}
        for folder in self.reachable(str(self.root)):
            for name, inode in self.names[folder].items():
                if inode is not None:
                    path = os.path.join(folder, name)
                    files[os.path.relpath(path, self.root)] = self.arrived(path, inode, share)
        return files

    def reachable(self, folder):
        if folder not in self.names:
            return
        yield folder
        for name, inode in self.names[folder].items():
            if inode is None:
                yield from self.reachable(os.path.join(folder, name))

    def arrived(self, path, inode, share):
        durable = self.bytes[inode]
        try:
            with open(path, "rb") as file:
                now = file.read() if os.fstat(file.fileno()).st_ino == inode else durable
        except FileNotFoundError:
            now = durable
        if not now.startswith(durable):  # cut since: both are possible, the longer is the worse
            return durable
        return now[: len(durable) + int((len(now) - len(durable)) * share)]


def inode_bytes(fd, size):
    """The bytes of an open file that may not be open for reading."""
    with open(f"/dev/fd/{fd}", "rb") as file:
        return file.read(size)
