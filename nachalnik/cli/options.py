"""The options that `run` and `resume` share, and the parts of a session made of them."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import click

from effects.parts import Rules, load_object
from effects.ports import Provider, Tool
from effects.tools.function import tool as as_tool
from nachalnik.cli.command import Stop
from reducers.vocabulary.errors import InvalidInput

KEY = "NACHALNIK_API_KEY"
"""Sent to whatever server is named. `OPENAI_API_KEY` goes to OpenAI's own and to no other."""
OPENAI_KEY = "OPENAI_API_KEY"

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
the rules that speak of a call the strictest wins: deny, then ask, then allow.
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
    provider: Provider
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
    return Parts(provider_of(options, log), tools, rules_of(options, tools))


def make_importable() -> None:
    """Modules of the current folder are found, as `python -m` finds them."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


# -- the model ---------------------------------------------------------------------------------


def provider_of(options: PartOptions, log: str) -> Provider:
    if options.script is not None:
        if options.model is not None or options.base_url is not None:
            raise Stop("--script stands in place of a model: leave out --model and --base-url")
        from nachalnik.cli.script import ScriptFile

        return ScriptFile.read(options.script, f"{log}.script")
    if options.model is None:
        raise Stop("nobody to answer: give --model M (and --base-url U), or --script FILE")
    from nachalnik import OpenAIChatProvider

    key = os.environ.get(KEY)
    if options.base_url is None:
        if not (key or os.environ.get(OPENAI_KEY)):
            raise Stop(
                f"no key: put yours in {OPENAI_KEY}, or name a server of your own with --base-url"
            )
        return OpenAIChatProvider(options.model, api_key=key)
    try:
        return OpenAIChatProvider(options.model, base_url=options.base_url, api_key=key)
    except InvalidInput as error:  # which repeats no address and no key: both may be secret
        raise Stop(f"--base-url: {error}") from error


# -- tools -------------------------------------------------------------------------------------


def tools_of(places: Iterable[str]) -> tuple[Tool, ...]:
    found: dict[str, Tool] = {}
    for place in places:
        for tool in _as_tools(load_object(place), place):
            name = tool.spec().id
            if name in found:
                raise Stop(f"--tools {place}: there is a tool {name!r} already")
            found[name] = tool
    return tuple(found.values())


def _as_tools(found: Any, place: str) -> list[Tool]:
    if isinstance(found, list | tuple):
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


# -- rules -------------------------------------------------------------------------------------


def rules_of(options: PartOptions, tools: Iterable[Tool]) -> Rules:
    """The rules, each of which can speak of something. Raises `InvalidInput`, `Stop`."""
    rules = Rules(allow=options.allow, ask=options.ask, deny=options.deny)
    names = sorted(tool.spec().id for tool in tools)
    for rule in rules.rules:
        subject = rule.subject
        if subject != "*" and ":" not in subject and subject not in names:
            known = f"the tools are {', '.join(names)}" if names else "there are no tools"
            raise Stop(
                f"--{rule.verdict} {subject}: no tool has that name ({known}); "
                "RULE is a tool's name, domain:op or *"
            )
    return rules
