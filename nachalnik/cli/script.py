"""A model whose replies are the `model>` lines of a scenario script, for `--script`.

The place in the script is kept in a file beside the log, so that a run that was killed goes on
where it was: a reply is taken when it begins to come. The place counts as long as the replies taken
so far are those the script begins with; behind another beginning the script starts anew.
"""

import os
from collections.abc import Sequence

import anyio.lowlevel
import msgspec
from msgspec import Struct

from effects.ports import DeltaSink, ProviderFailure
from nachalnik.cli.command import Stop
from nachalnik.scenarios.notation import NotationError, replies
from nachalnik.scenarios.replies import Answer, CutStream, fragments
from reducers.vocabulary.digests import digest_of
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse

INFO = ModelInfo("script", "script", tool_calling=True)


class Place(Struct, frozen=True):
    """How many replies were taken, and the digest of these."""

    taken: int
    digest: str


class ScriptFile:
    """A provider that gives the replies of a script in their order."""

    def __init__(self, answers: Sequence[Answer], name: str, place_file: str) -> None:
        self._answers = answers
        self._name = name
        self._place_file = place_file
        self._taken = self._read_place()

    @classmethod
    def read(cls, path: str, place_file: str) -> "ScriptFile":
        """Raises `Stop` for a file that cannot be read, or is no script."""
        try:
            with open(path, encoding="utf-8") as file:
                answers = replies(file.read())
        except OSError as error:
            raise Stop(f"{path}: the script cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise Stop(f"{path}: the script is no UTF-8 text: {error.reason}") from None
        except NotationError as error:
            raise Stop(f"{path}, line {error.line}: {error.problem}") from None
        if not answers:
            raise Stop(f"{path}: no line of the script begins with `model>`, so nobody answers")
        return cls(answers, path, place_file)

    def info(self) -> ModelInfo:
        return INFO

    async def respond(
        self,
        request: ModelRequest,  # noqa: ARG002 - the script does not listen
        deltas: DeltaSink,
    ) -> ModelResponse:
        """The next reply, or what it says to raise. `ProviderFailure` behind the last one."""
        if self._taken >= len(self._answers):
            raise ProviderFailure(
                f"the script {self._name} has no reply left: it has {len(self._answers)}. "
                "Add a `model>` line",
                "model.script_empty",
            )
        answer = self._answers[self._taken]
        self._taken += 1
        self._write_place()
        arriving = answer.arrived if isinstance(answer, CutStream) else ()
        for delta in fragments(answer) if isinstance(answer, ModelResponse) else arriving:
            deltas.send(delta)
            await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer

    # -- the place ---------------------------------------------------------------------------

    def _read_place(self) -> int:
        try:
            with open(self._place_file, "rb") as file:
                place = msgspec.json.decode(file.read(), type=Place)
        except (FileNotFoundError, NotADirectoryError):
            return 0  # where no such file can be no log can be: its opening says so
        except (OSError, msgspec.MsgspecError) as error:
            raise Stop(
                f"{self._place_file}: the place in the script cannot be read ({error}); "
                "remove the file to start the script anew"
            ) from None
        return place.taken if self._digest(place.taken) == place.digest else 0

    def _write_place(self) -> None:
        """A kill at any moment leaves the old place or the new one."""
        place = msgspec.json.encode(Place(self._taken, self._digest(self._taken)))
        temporary = f"{self._place_file}.new"
        with open(temporary, "wb", opener=_private) as file:
            file.write(place + b"\n")
        os.replace(temporary, self._place_file)

    def _digest(self, count: int) -> str:
        """Of the first replies. One more than there are has the digest of none."""
        taken = self._answers[:count]
        plain = [str(one) if isinstance(one, Exception) else one for one in taken]
        return digest_of(msgspec.json.encode([count, plain]))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
