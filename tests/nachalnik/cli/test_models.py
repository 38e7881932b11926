"""The model that is asked: which server, which key, and what becomes of what it streams."""

import attrs
import pytest

from nachalnik import ModelInfo
from nachalnik.cli.command import Stop
from nachalnik.cli.options import PartOptions, provider_of, provider_of_log
from nachalnik.testing.wire import Reply, WireServer, chat_stream, sse


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --model M (and --base-url U), or --script FILE"),
        (["--model", "m"], "OPENAI_API_KEY"),
        (["--model", "m", "--script", "script.txt"], "leave out --model"),
        (["--script", "absent.txt"], "absent.txt: the script cannot be read: No such file"),
        (["--script", "bad.txt"], "bad.txt, line 2: "),
        (["--model", "m", "--base-url", "ftp://x"], "--base-url: a base address begins with http"),
    ],
)
def test_a_model_that_cannot_be_had_is_told(shell, here, arguments, said):
    shell.script('"One."', "nonsense", name="bad.txt")
    ran = here("run", "go", "--log", "s.jsonl", *arguments)
    assert ran.status == 2
    assert said in ran.err
    assert not shell.log.exists()


def wire_call(call: str, tool: str, args: str) -> bytes:
    function = {"name": tool, "arguments": args}
    delta = {"tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]}
    return sse(
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    )


def test_a_server_on_loopback_answers(shell):
    replies = [wire_call("k1", "add", '{"x":1,"y":2}'), chat_stream("It is three.")]
    with WireServer(replies) as server:
        ran = shell.run(
            *("run", "add them", "--log", "s.jsonl", "--model", "m"),
            *("--base-url", server.base_url, "--tools", "tools:TOOLS", "--allow", "add"),
        )
    assert ran.status == 0
    assert '[k1] add {"x":1,"y":2}' in ran.out
    assert "It is three.\n-- finished" in ran.out
    assert [one.json()["model"] for one in server.requests] == ["m", "m"]
    assert shell.run("check", "s.jsonl").status == 0
    assert shell.run("replay", "s.jsonl").status == 0


def test_a_key_goes_to_the_server_it_was_meant_for(shell):
    with WireServer([chat_stream("One."), chat_stream("Two.")]) as server:
        words = ("run", "go", "--log", "s.jsonl", "--model", "m", "--base-url", server.base_url)
        assert shell.run(*words, NACHALNIK_API_KEY="key-for-anybody").status == 0
        assert shell.run(*words, OPENAI_API_KEY="key-for-openai").status == 0
    first, second = (one.headers for one in server.requests)
    assert first["authorization"] == "Bearer key-for-anybody"
    assert "authorization" not in second
    assert b"key-for" not in shell.log.read_bytes()


def test_openais_own_server_gets_openais_own_key(monkeypatch):
    monkeypatch.setenv("NACHALNIK_API_KEY", "key-for-anybody")
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-openai")
    assert sent_key("m") == "Bearer key-for-openai"
    assert sent_key("m", "https://api.openai.com/v1/") == "Bearer key-for-anybody"
    monkeypatch.delenv("NACHALNIK_API_KEY")
    assert sent_key("m", "https://api.openai.com/v1") == "Bearer key-for-openai"
    assert sent_key("m", "http://127.0.0.1:9/v1") is None
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(Stop, match="put yours in OPENAI_API_KEY"):
        sent_key("m")


def sent_key(model: str, base_url: str | None = None) -> str | None:
    options = PartOptions(model, base_url, None, (), (), (), ())
    return provider_of(options, "s.jsonl")._server.headers.get("authorization")


@pytest.mark.parametrize(
    ("variable", "more"),
    [("OPENAI_API_KEY", ()), ("NACHALNIK_API_KEY", ("--base-url", "http://127.0.0.1:9/v1"))],
)
def test_a_key_that_cannot_be_sent_is_told_by_the_name_of_its_variable(
    shell, here, monkeypatch, variable, more
):
    monkeypatch.setenv(variable, "first\nsecond")
    ran = here("run", "go", "--log", "s.jsonl", "--model", "m", *more)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"nachalnik: {variable}: ")
    assert not {"first", "second"} & set(ran.err.split())
    assert "--base-url" not in ran.err


def test_a_stream_that_is_cut_is_no_answer(shell, quick):
    cut = Reply(chat_stream("half of an answer"), break_at=120)
    with WireServer([cut, chat_stream("All of it.")]) as server:
        words = ("--log", "s.jsonl", "--model", "m", "--base-url", server.base_url)
        ran = shell.run("run", "go", *words)
        assert ran.status == 1
        assert "the turn failed" in ran.err
        again = shell.run("resume", *words[1:])
    assert again.out.startswith("All of it.")
    assert shell.run("check", "s.jsonl").status == 0


def test_text_shows_while_the_answer_is_still_coming(shell):
    body = chat_stream("one two three")
    with WireServer([Reply(body, stall_at=body.index(b"three") - 30)]) as server:
        process = shell.start(
            *("run", "go", "--log", "s.jsonl", "--model", "m", "--base-url", server.base_url)
        )
        assert process.stdout.read(len("one two")) == b"one two"
        process.kill()
        process.communicate()


MANY = 5000


def burst() -> bytes:
    """One body that holds far more fragments than a subscription does."""
    words = [sse({"choices": [{"delta": {"content": f"<{n}>"}}]}, done=False) for n in range(MANY)]
    return b"".join(words) + sse({"choices": [{"delta": {}, "finish_reason": "stop"}]})


def test_a_burst_of_fragments_is_printed_whole(shell):
    with WireServer([burst(), burst()]) as server:
        words = ("go", "--log", "s.jsonl", "--model", "m", "--base-url", server.base_url)
        ran = shell.run("run", *words)
        told = shell.run("run", *words, "--json")
    text = "".join(f"<{n}>" for n in range(MANY))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"{text}\n-- finished, at position 6\n"
    events = [line["event"] for line in told.lines()[:-1]]
    assert "".join(one["text"] for one in events if one["event"] == "model.delta") == text
    recorded = [line for line in told.lines() if "seq" in line]
    assert recorded == shell.run("show", "s.jsonl", "--json").lines()[-len(recorded) :]
    assert recorded[0]["event"]["event"] == "context.added"


# -- the model that a log names ----------------------------------------------------------------

STRANGER = ModelInfo("openai", "m", endpoint="https://models.example/v1;x")


def test_a_server_that_only_the_log_names_gets_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-openai")
    options = PartOptions(None, None, None, (), (), (), ())
    given = attrs.evolve(options, base_url=STRANGER.endpoint)
    assert "authorization" not in provider_of_log(STRANGER, options)._server.headers
    monkeypatch.setenv("NACHALNIK_API_KEY", "key-for-anybody")
    with pytest.raises(Stop, match=r"say --base-url 'https://models\.example/v1;x' to send"):
        provider_of_log(STRANGER, options)
    headers = provider_of_log(STRANGER, given)._server.headers
    assert headers["authorization"] == "Bearer key-for-anybody"


def test_what_is_known_of_the_model_stays_known(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-openai")
    options = PartOptions(None, None, None, (), (), (), ())
    info = ModelInfo("openai", "m", 1000, 100, True, True, (), "https://api.openai.com/v1")
    assert provider_of_log(info, options).info() == info


def test_a_server_of_a_log_that_is_no_address_is_told():
    options = PartOptions(None, None, None, (), (), (), ())
    for url in ("ftp://x", "http://[x"):
        with pytest.raises(Stop, match="the server that the log names: "):
            provider_of_log(ModelInfo("openai", "m", endpoint=url), options)
