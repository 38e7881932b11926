"""Recorded traffic of real servers, replayed: `python -m tests.recordings` (`make recordings`).

Three source distributions carry recordings of Chat Completions and Messages streams. They are
fetched once by version and hash into an ignored folder; nothing of them is kept in this project.
There is no expected output to compare with: what is asserted holds for any stream.

Exit status: 0 all held, 1 something did not, 75 the package registry did not answer.
"""

import gzip
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import yaml

from effects.ports import DeltaSink, StreamTruncated
from effects.providers.openai_chat import ChatDecoder, OpenAIChatProvider
from effects.providers.openai_chat.decode import parse_chunk
from effects.providers.openai_chat.usage import usage_in
from effects.providers.sse import EventReader
from reducers.vocabulary.content import Text
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.models import ModelResponse

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".recordings"
TRY_LATER = 75
ASK = ModelRequest((Message("user", Text("go")),))


class Source(NamedTuple):
    project: str
    version: str
    sha256: str
    chat: int
    """How many Chat streams are in it: fewer found means that we lost some on the way."""

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.project.replace('-', '_')}-{self.version}.tar.gz"


SOURCES = (
    Source(
        "opentelemetry-instrumentation-openai",
        "0.62.4",
        "a2c03cf4b8c18ed5e53d4a59b3299df39858640e41b91379ca72153a3f85a716",
        81,
    ),
    Source(
        "magentic",
        "0.41.1",
        "91e9fde3455c53891d43301cc15ca6dfd5bb5670a1e9ebb173c0ec880187fbad",
        133,
    ),
    Source(
        "opentelemetry-instrumentation-anthropic",
        "0.62.4",
        "861d893c0e20022fa5bee6134cc36c1b5bf847cf831ec0d8b78b0a8267e2a21b",
        0,
    ),
)


# -- fetching ------------------------------------------------------------------------------


class RegistryDown(Exception):
    """The registry did not give a file; trying later may help."""


class Broken(Exception):
    """What trying later does not help."""


def fetch(sources: tuple[Source, ...]) -> None:
    """Bring every source that is not there yet, and check them all."""
    missing = [source for source in sources if not is_right(source)]
    if missing:
        FOLDER.mkdir(exist_ok=True)
        download(missing)
    for source in missing:
        if not is_right(source):
            raise Broken(f"{source.file.name} is not the file that was pinned by its hash")


def is_right(source: Source) -> bool:
    if not source.file.is_file():
        return False
    return hashlib.sha256(source.file.read_bytes()).hexdigest() == source.sha256


def download(sources: list[Source]) -> None:
    """By pip, since it knows where this machine's registry is; what it says is not shown."""
    pins = [f"{one.project}=={one.version} --hash=sha256:{one.sha256}" for one in sources]
    with tempfile.TemporaryDirectory() as place:
        pinned = Path(place) / "requirements.txt"
        pinned.write_text("\n".join(pins) + "\n")
        command = [
            *pip(),
            *("download", "--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes"),
            *("--disable-pip-version-check", "-r", str(pinned), "-d", str(FOLDER)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "DO NOT MATCH THE HASHES" in done.stdout + done.stderr:
        raise Broken("the registry gave a file with another hash than the one pinned here")
    if done.returncode != 0:
        raise RegistryDown


def pip() -> list[str]:
    """How to call pip. An environment made by uv has none: the tools beside it may."""
    tools = ROOT / ".tools" / "bin"
    base = getattr(sys, "_base_executable", sys.executable)
    by_python = [[python, "-m", "pip"] for python in (sys.executable, str(tools / "python"), base)]
    by_uv = [[uv, "tool", "run", "pip"] for uv in (str(tools / "uv"), "uv")]
    has_uv = False
    for candidate in by_python + by_uv:
        try:
            found = subprocess.run([*candidate, "--version"], capture_output=True, check=False)
        except OSError:
            continue
        if found.returncode == 0:
            return candidate
        has_uv = has_uv or candidate in by_uv
    if has_uv:
        raise RegistryDown  # uv was there, and could not get pip
    raise Broken("neither pip nor uv was found to fetch the recordings with")


# -- reading -------------------------------------------------------------------------------


class Stream(NamedTuple):
    name: str
    path: str
    body: bytes


def streams(source: Source) -> Iterator[Stream]:
    """Every event stream in the recordings of a source."""
    with tarfile.open(source.file) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith((".yaml", ".yml")):
                file = archive.extractfile(member)
                assert file is not None
                name = member.name.partition("/")[2]
                yield from streams_in(name, yaml.load(file.read(), Loader=yaml.CSafeLoader))


def streams_in(name: str, cassette: object) -> Iterator[Stream]:
    exchanges = cassette.get("interactions") if isinstance(cassette, dict) else None
    for place, exchange in enumerate(exchanges or []):
        request, response = exchange["request"], exchange["response"]
        heads = {key.lower(): value for key, value in response["headers"].items()}
        kind = heads.get("content-type") or ""
        if "text/event-stream" in (" ".join(kind) if isinstance(kind, list) else kind):
            path = httpx2.URL(request["uri"]).path
            yield Stream(f"{name}[{place}]", path, as_bytes(response["body"]["string"]))


def as_bytes(body: str | bytes) -> bytes:
    """A body as it left the server, unpacked: most were recorded as they were compressed."""
    raw = body.encode() if isinstance(body, str) else body
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


# -- checking ------------------------------------------------------------------------------


class Facts(NamedTuple):
    """What the wire said, read without our decoder."""

    finish_reasons: int
    marks: int
    has_usage: bool


def facts(lines: list[str]) -> Facts:
    chunks: list[Any] = [parse_chunk(line) for line in lines if line != "[DONE]"]
    choices = [one["choices"][0] for one in chunks if one.get("choices")]
    choices = [one for one in choices if one.get("index", 0) == 0]
    reasons = sum(bool(choice.get("finish_reason")) for choice in choices)
    has_usage = any(usage_in(chunk, {}) is not None for chunk in chunks)
    return Facts(reasons, lines.count("[DONE]"), has_usage)


async def check(stream: Stream) -> Counter[str]:
    """Everything that holds for any stream. Raises `AssertionError`; returns what was in it."""
    lines = await data_lines(stream)
    wire = facts(lines)
    decoder, shown = ChatDecoder(), []
    for line in lines:
        if not decoder.has_ended:
            assert is_cut(decoder), "a stream without its end was taken for an answer"
        shown += decoder.done() if line == "[DONE]" else decoder.feed(parse_chunk(line))
    assert wire.finish_reasons <= 1, "several ends"
    assert wire.marks <= 1, "several marks of the end"
    response = decoder.finish()
    said = "".join(delta.text for delta in shown if delta.kind == "text")
    assert said == text_of(response), "the answer is not what was streamed"
    thought = "".join(delta.text for delta in shown if delta.kind == "reasoning")
    assert thought == ("" if response.reasoning is None else response.reasoning.text)
    check_calls(response)
    assert (response.usage is not None) == wire.has_usage, "the cost was lost"
    assert await through_provider(stream) == response, "the provider has another answer"
    return Counter(
        {
            "events": len(lines),
            "calls": len(response.calls),
            "with usage": wire.has_usage,
            "with reasoning": response.reasoning is not None,
            f"stop {response.stop}": 1,
        }
    )


def check_calls(response: ModelResponse) -> None:
    assert bool(response.calls) == (response.stop == "tool_use") or response.stop == "length"
    if response.stop == "tool_use":
        for call in response.calls:
            assert object_problem(call.args) is None, f"arguments are no object: {call.args!r}"
            assert call.tool, "a call without a name"


def is_cut(decoder: ChatDecoder) -> bool:
    try:
        decoder.finish()
    except StreamTruncated:
        return True
    return False


def text_of(response: ModelResponse) -> str:
    return "" if response.content is None else response.content.text


async def data_lines(stream: Stream) -> list[str]:
    reader = EventReader(as_response(stream, httpx2.Request("POST", "http://x/")))
    lines = []
    while (event := await reader.next()) is not None:
        lines.append(event.data)
    return lines


async def through_provider(stream: Stream) -> ModelResponse:
    transport = httpx2.MockTransport(lambda request: as_response(stream, request))
    async with httpx2.AsyncClient(transport=transport) as http:
        provider = OpenAIChatProvider("m", base_url="http://x/v1", http=http)
        return await provider.respond(ASK, DeltaSink.disconnected())


def as_response(stream: Stream, request: httpx2.Request) -> httpx2.Response:
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx2.Response(200, headers=headers, content=stream.body, request=request)


# -- the run -------------------------------------------------------------------------------


def replay(source: Source) -> tuple[int, list[str]]:
    """How many Chat streams held, and what was wrong with the others; prints the counts."""
    passed, problems, others, seen = 0, [], Counter[str](), Counter[str]()
    for stream in streams(source):
        if not stream.path.endswith("/chat/completions"):
            others[stream.path.rpartition("/")[2]] += 1
            continue
        try:
            seen += anyio.run(check, stream)
            passed += 1
        except Exception as problem:
            problems.append(f"{stream.name}: {type(problem).__name__}: {problem}")
    counts = [f"{count} {what}" for what, count in sorted(seen.items())]
    skipped = [f"{count} not Chat ({what})" for what, count in sorted(others.items())]
    print(f"{source.project} {source.version}: {passed} Chat streams held")
    print(f"    {', '.join([*counts, *skipped]) or 'nothing in it'}")
    if passed + len(problems) < source.chat:
        problems.append(f"{source.project}: {source.chat} Chat streams were expected")
    return passed, problems


def main() -> int:
    try:
        fetch(SOURCES)
    except RegistryDown:
        print("The package registry did not answer: the recordings could not be fetched.")
        return TRY_LATER
    except Broken as problem:
        print(f"The recordings cannot be used: {problem}.")
        return 1
    passed, problems = 0, []
    for source in SOURCES:
        held, found = replay(source)
        passed += held
        problems += found
    for problem in problems:
        print(problem)
    print(f"{passed} passed, {len(problems)} failed")
    return 1 if problems or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
