"""A model whose replies are the `model>` lines of a scenario script, for `--script`.

The place in the script is kept in a file beside the log, so that a run that was killed goes on
where it was. It counts as long as the replies given so far are those the script begins with; behind
another beginning the script starts anew.
"""

import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from effects.ports import DeltaSink, ProviderFailure
from nachalnik.cli.command import Stop
from reducers.vocabulary.content import as_text
from reducers.vocabulary.digests import digest_of
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse

INFO = ModelInfo("script", "script", tool_calling=True)


class Place(Struct, frozen=True):
    """How many replies were given, and the digest of these."""

    given: int = 0
    digest: str = ""


class ScriptFile:
    """A provider that gives the replies of a script in their order."""

    def __init__(self, replies: Sequence[ModelResponse], name: str, place_file: str) -> None:
        self._replies = replies
        self._name = name
        self._place_file = place_file
        self._given = self._read_place()

    @classmethod
    def read(cls, path: str, place_file: str) -> "ScriptFile":
        """Raises `Stop` for a file that cannot be read, or is no script."""
        from nachalnik.scenarios.notation import replies

        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise Stop(f"{path}: the script cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise Stop(f"{path}: the script is no UTF-8 text: {error.reason}") from None
        try:
            return cls(replies(text), path, place_file)
        except ValueError as error:
            raise Stop(f"{path}: {error}") from error

    def info(self) -> ModelInfo:
        return INFO

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        """The next reply. Raises `ProviderFailure` behind the last one."""
        if self._given >= len(self._replies):
            raise ProviderFailure(
                f"the script {self._name} has {len(self._replies)} replies, and all were given: "
                "add a `model>` line",
                "model.script_empty",
            )
        reply = self._replies[self._given]
        if reply.content is not None and (text := as_text(reply.content)):
            deltas.text(text)
        self._given += 1
        self._write_place()
        return reply

    # -- the place ---------------------------------------------------------------------------

    def _read_place(self) -> int:
        try:
            with open(self._place_file, "rb") as file:
                place = msgspec.json.decode(file.read(), type=Place)
        except FileNotFoundError:
            return 0
        except (OSError, msgspec.MsgspecError) as error:
            raise Stop(
                f"{self._place_file}: the place in the script cannot be read ({error}); "
                "remove the file to start the script anew"
            ) from None
        is_same = self._digest(place.given) == place.digest
        return place.given if is_same and place.given <= len(self._replies) else 0

    def _write_place(self) -> None:
        """A kill at any moment leaves the old place or the new one."""
        place = msgspec.json.encode(Place(self._given, self._digest(self._given)))
        temporary = f"{self._place_file}.new"
        with open(temporary, "wb", opener=_private) as file:
            file.write(place + b"\n")
        os.replace(temporary, self._place_file)

    def _digest(self, count: int) -> str:
        return digest_of(msgspec.json.encode(list(self._replies[:count])))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
