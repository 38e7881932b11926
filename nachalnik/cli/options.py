"""The options that `run` and `resume` share, and the parts of a session made of them."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from shlex import join, quote
from typing import Any
from urllib.parse import urlsplit

import attrs
import click

from effects.parts import Rules, load_object
from effects.ports import Provider, Tool
from effects.providers.http import LOOPBACK
from effects.tools.function import tool as as_tool
from nachalnik.cli.command import Stop
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.tools import ToolSpec

KEY = "NACHALNIK_API_KEY"
"""Sent to the server that `--base-url` names. `OPENAI_API_KEY` goes to OpenAI's own and to no
other."""
OPENAI_KEY = "OPENAI_API_KEY"
CHAT = "openai"
"""What a Chat Completions provider is called in a log, unless a program gave it another name."""
GIVE_MODEL = "give --model M (and --base-url U), or --script FILE"

_OPTIONS = (
    click.option("--model", metavar="M", help="The model, by the name its server knows."),
    click.option(
        "--base-url",
        metavar="U",
        help="A server that speaks Chat Completions, such as http://127.0.0.1:11434/v1, with the "
        f"key in {KEY} if it wants one. Without it OpenAI's, with that in {OPENAI_KEY}.",
    ),
    click.option(
        "--script",
        metavar="FILE",
        help="In place of a model: the `model>` lines of a scenario script, one a request. "
        "The place in it is kept in LOG.script.",
    ),
    click.option(
        "--tools",
        metavar="MODULE:NAME",
        multiple=True,
        help="A tool, a list of them, or a typed function. Give it again for more.",
    ),
    click.option(
        "--allow", metavar="RULE", multiple=True, help="Run these calls. RULE: see below."
    ),
    click.option("--deny", metavar="RULE", multiple=True, help="Refuse these calls."),
    click.option(
        "--ask", metavar="RULE", multiple=True, help="Let these calls wait for an answer."
    ),
)

RULES_HELP = """\
Rules: RULE is a tool's name, a capability (domain:op, such as fs:write) or * for every call. Of
the rules that speak of a call the strictest wins: deny, then ask, then allow. The capability
exec:run subsumes every other one: a program can do anything, so who allows it has allowed all.
"""


@attrs.frozen
class PartOptions:
    """As they were given, by the names of `_OPTIONS`."""

    model: str | None
    base_url: str | None
    script: str | None
    tools: tuple[str, ...]
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    ask: tuple[str, ...]


@attrs.frozen
class Parts:
    provider: Provider | None
    tools: tuple[Tool, ...]
    rules: Rules


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the shared options, as one argument `parts`."""

    def with_parts(**given: Any) -> Any:
        own = {field.name: given.pop(field.name) for field in attrs.fields(PartOptions)}
        return command(parts=PartOptions(**own), **given)

    with_parts.__doc__ = command.__doc__
    with_parts.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        option(with_parts)
    return with_parts


def parts_of(options: PartOptions, log: str) -> Parts:
    """Raises `Stop`, `InvalidInput`: which option cannot be used, and why."""
    make_importable()
    tools = tools_of(options.tools)
    return Parts(provider_of(options, log), tuple(tools.values()), rules_of(options, tools))


def make_importable() -> None:
    """Modules of the current folder are found, as `python -m` finds them."""
    with contextlib.suppress(FileNotFoundError):  # a folder that was removed has no modules
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())


def resuming(log: str, options: PartOptions, *more: str) -> str:
    """The command that goes on with a log under the same options, as it can be typed."""
    words = ["nachalnik", "resume", f"./{log}" if log.startswith("-") else log, *more]
    for name, given in attrs.asdict(options).items():
        for value in (given,) if isinstance(given, str) else given or ():
            shown = _without_secrets(value) if name == "base_url" else value
            words += [f"--{name.replace('_', '-')}", shown]
    return join(words)


def _without_secrets(url: str) -> str:
    """An address, or a word in its place where a user, a password or a query stands in it."""
    return "URL" if {"@", "?", "#"} & set(url) else url


# -- the model ---------------------------------------------------------------------------------


def provider_of(options: PartOptions, log: str) -> Provider | None:
    """The one that is named, if one is. Raises `Stop`."""
    if options.script is not None:
        if options.model is not None or options.base_url is not None:
            raise Stop("--script stands in place of a model: leave out --model and --base-url")
        from nachalnik.cli.script import ScriptFile

        return ScriptFile.read(options.script, f"{os.path.realpath(log)}.script")
    return None if options.model is None else _chat(ModelInfo(CHAT, options.model), options)


def provider_of_log(info: ModelInfo | None, options: PartOptions) -> Provider:
    """The model that a log names, at its server or at that of `--base-url`. Raises `Stop`: what
    must be given in its place."""
    if info is None:
        raise Stop(f"nobody to answer: the log names no model; {GIVE_MODEL}")
    if info.provider == "script":
        raise Stop(
            "nobody to answer: the log was made with --script; give --script FILE, or "
            "--model M (and --base-url U)"
        )
    if info.provider != CHAT or not (info.endpoint or options.base_url):
        raise Stop(
            f"nobody to answer: the log names {info}, which only its own program can ask; "
            f"{GIVE_MODEL}"
        )
    return _chat(info, options)


def _chat(info: ModelInfo, options: PartOptions) -> Provider:
    """At the server of the option, else of the log, else OpenAI's."""
    from effects.providers.openai_chat.provider import DEFAULT_BASE_URL
    from nachalnik import OpenAIChatProvider

    url = options.base_url or info.endpoint or DEFAULT_BASE_URL
    try:  # without a key, to know what is wrong; neither error repeats an address or a key
        OpenAIChatProvider(info.model, base_url=url, api_key="")
    except InvalidInput as error:
        whose = "--base-url" if options.base_url else "the server that the log names"
        raise Stop(f"{whose}: {error}") from error
    is_openai = url.rstrip("/") == DEFAULT_BASE_URL
    variable = _key_of(url, is_openai=is_openai, is_given=bool(options.base_url))
    try:
        return OpenAIChatProvider(
            info.model,
            base_url=url,
            api_key=os.environ.get(variable, ""),
            context_limit=info.context_limit,
            max_output_tokens=info.max_output_tokens,
        )
    except InvalidInput as error:
        raise Stop(f"{variable}: {error}") from error


def _key_of(url: str, *, is_openai: bool, is_given: bool) -> str:
    """The variable whose key a server is sent. Raises `Stop` where there must be another word."""
    has_key = bool(os.environ.get(KEY, "").strip())
    if is_openai and not (is_given and has_key):
        if not os.environ.get(OPENAI_KEY, "").strip():
            raise Stop(
                f"no key: put yours in {OPENAI_KEY}, or name a server of your own with --base-url"
            )
        return OPENAI_KEY
    if has_key and not is_given and urlsplit(url).hostname not in LOOPBACK:
        # A log may come from a stranger, who must not get a key by the address in it.
        raise Stop(
            f"the log names the server {url}: say --base-url {quote(url)} to send it your {KEY}"
        )
    return KEY


# -- tools -------------------------------------------------------------------------------------


def tools_of(places: Iterable[str]) -> dict[str, Tool]:
    """By name, in their order. Raises `Stop`, `InvalidInput`."""
    found: dict[str, Tool] = {}
    for place in places:
        for tool in _as_tools(load_object(place), place):
            name = _spec(tool, place).id
            if name in found:
                raise Stop(f"--tools {place}: there is a tool {name!r} already")
            found[name] = tool
    return found


def _as_tools(found: Any, place: str) -> list[Tool]:
    if isinstance(found, list | tuple):
        if not found:
            raise Stop(f"--tools {place}: it holds no tool")
        return [one for part in found for one in _as_tools(part, place)]
    if isinstance(found, type):
        raise Stop(f"--tools {place}: it is a class; name an instance of it")
    if isinstance(found, Tool):
        return [found]
    if not callable(found):
        kind = type(found).__name__
        raise Stop(f"--tools {place}: {kind} is no tool: give a tool, a list of them or a function")
    try:
        return [as_tool(found)]
    except Exception as error:  # annotations are code, and run here
        raise Stop(f"--tools {place}: {error}") from error


def _spec(tool: Tool, place: str) -> ToolSpec:
    try:
        spec: Any = tool.spec()
    except Exception as error:
        raise Stop(f"--tools {place}: spec() raised {type(error).__name__}: {error}") from error
    if not isinstance(spec, ToolSpec):
        raise Stop(f"--tools {place}: spec() gave {type(spec).__name__}, which is no ToolSpec")
    return spec


# -- rules -------------------------------------------------------------------------------------


def rules_of(options: PartOptions, tools: Iterable[str]) -> Rules:
    """The rules, each of which can speak of something. Raises `InvalidInput`, `Stop`."""
    rules = Rules(allow=options.allow, ask=options.ask, deny=options.deny)
    names = sorted(tools)
    for rule in rules.rules:
        subject = rule.subject
        if subject != "*" and ":" not in subject and subject not in names:
            known = f"the tools are {', '.join(names)}" if names else "there are no tools"
            raise Stop(
                f"--{rule.verdict} {subject}: no tool has that name ({known}); "
                "RULE is a tool's name, domain:op or *"
            )
    return rules
