"""A door to the operating system that does something else at its k-th call."""

import errno
import os
import signal

from effects.logs.syscalls import Syscalls

NAMES = [name for name in vars(Syscalls) if not name.startswith("_")]


class Faults(Syscalls):
    """Lets every call through, but calls number `at` to `at + times - 1` go to `act`.

    `act` gets the call's name, the call itself and its arguments. With `only`, the calls of that
    name alone are counted.
    """

    def __init__(self, at=0, act=None, times=1, only=None):
        self.at = at
        self.act = act
        self.times = times
        self.only = only
        self.count = 0
        self.has_acted = False
        self.trace = []

    def arm(self, at, act, times=1, only=None):
        self.at, self.act, self.times, self.only = at, act, times, only
        self.count = 0
        self.trace = []

    def pass_on(self, name, call, arguments):
        self.trace.append((name, *arguments))
        if self.only in (None, name):
            self.count += 1
            if self.at <= self.count < self.at + self.times and self.at > 0:
                self.has_acted = True
                return self.act(name, call, arguments)
        return call(self, *arguments)


def _door(name):
    call = getattr(Syscalls, name)

    def pass_on(self, *arguments):
        return self.pass_on(name, lambda calls, *rest: call(calls, *rest), arguments)

    return pass_on


for _name in NAMES:
    setattr(Faults, _name, _door(_name))


# -- what can happen at a call ---------------------------------------------------------


def failing(number):
    """The call fails. A close that fails has closed all the same."""

    def act(name, call, arguments):
        if name == "close":
            os.close(*arguments)
        raise OSError(number, os.strerror(number))

    return act


def failing_after(number, count):
    """A write of which `count` bytes arrive, and whose rest fails."""
    left = [count]

    def act(name, call, arguments):
        fd, data = arguments
        if left[0] == 0:
            raise OSError(number, os.strerror(number))
        written = os.write(fd, data[: left[0]])
        left[0] -= written
        return written

    return act


def short(name, call, arguments):
    """A write takes one byte only; any other call is itself."""
    if name != "write":
        return call(Syscalls(), *arguments)
    fd, data = arguments
    return os.write(fd, data[:1])


def interrupted_before(name, call, arguments):
    if name == "close":  # else the file stays open, and locked, as long as the tests run
        os.close(*arguments)
    raise KeyboardInterrupt


def interrupted_after(name, call, arguments):
    result = call(Syscalls(), *arguments)
    if name in ("open", "dup"):
        os.close(result)  # nobody will learn its number
    raise KeyboardInterrupt


def interrupted_half(name, call, arguments):
    if name == "write":
        fd, data = arguments
        os.write(fd, data[: len(data) // 2])
    interrupted_before(name, call, arguments)


def killed(name, call, arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def killed_half(name, call, arguments):
    """Killed in the middle of a write: half of its bytes have arrived."""
    if name == "write":
        fd, data = arguments
        os.write(fd, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


NO_SPACE = failing(errno.ENOSPC)
BROKEN = failing(errno.EIO)
