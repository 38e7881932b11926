"""Parts as they are described, and pure seams as a log names them."""

import importlib

import attrs
import pytest

from effects.parts import (
    Rules,
    SeamMissing,
    describe_policy,
    describe_tool,
    load_counter,
    load_object,
    load_projector,
    load_reducer,
    seam_of,
    seams_of,
)
from effects.tools.function import tool
from reducers.projection import LinearProjector
from reducers.tokens import BytesPerToken, Calibrating
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.inputs import DEFAULT_SEAMS, Seams
from reducers.vocabulary.policies import PolicyInfo, Rule
from tests.effects.shell import Policy, Tool


class Plain(LinearProjector):
    """A projector with an option of its own kind."""

    def __init__(self, words="x", *, depth=3):
        super().__init__()
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "_depth", depth)


class Saying(LinearProjector):
    def options(self):
        return {"label_references": False}


class Hiding(BytesPerToken):
    def __init__(self, secret=1):
        super().__init__(secret + 1)


class Failing(BytesPerToken):
    def __init__(self):
        raise LookupError("not today")


@attrs.frozen
class Attrs(BytesPerToken):
    bytes_per_token: int = 4
    names: list[str] = attrs.Factory(list)


# -- seams -------------------------------------------------------------------------------------


def test_the_default_seams_are_named_as_in_the_sample_log():
    assert seams_of(LinearProjector(), Calibrating()) == DEFAULT_SEAMS
    assert DEFAULT_SEAMS.projector == "reducers.projection:LinearProjector"
    assert DEFAULT_SEAMS.counter == "reducers.tokens:Calibrating"


@pytest.mark.parametrize(
    ("seam", "options", "load"),
    [
        (LinearProjector(), "", load_projector),
        (LinearProjector(send_blocks=True), '{"send_blocks":true}', load_projector),
        (Plain(), "", load_projector),
        (Plain("y", depth=4), '{"words":"y","depth":4}', load_projector),
        (Saying(), '{"label_references":false}', None),
        (BytesPerToken(), "", load_counter),
        (BytesPerToken(1), '{"bytes_per_token":1}', load_counter),
        (Calibrating(3), '{"bytes_per_token":3}', load_counter),
        (Attrs(2, ["a"]), '{"bytes_per_token":2,"names":["a"]}', load_counter),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_seam_is_named_with_what_is_not_its_default(seam, options, load):
    text = seam_of(seam)
    assert text.partition("{")[1:] == options.partition("{")[1:]
    if load is not None:
        again = load(text)
        assert type(again) is type(seam)
        assert seam_of(again) == text


def test_a_seam_that_hides_its_arguments_is_refused():
    with pytest.raises(InvalidInput, match=r"Hiding does not show its argument 'secret'.*options"):
        seam_of(Hiding(7))


def test_an_option_that_is_no_json_is_refused():
    with pytest.raises(InvalidInput, match="no JSON"):
        seam_of(Attrs(2, [object()]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "MODULE:NAME"),
        ("reducers.projection", "MODULE:NAME"),
        (":LinearProjector", "MODULE:NAME"),
        ("no_such_module:Thing", "has not loaded"),
        ("reducers.nothing:Thing", "does not import"),
        ("reducers.projection:Nothing", "has no 'Nothing'"),
        ("reducers.projection:LinearProjector{", "cannot be loaded"),
        ('reducers.projection:LinearProjector{"depth":1}', "depth"),
        ("reducers.projection:project", "no class with project"),
        ("reducers.tokens:BytesPerToken", "no class with project"),
        ("..:x", "has not loaded"),
    ],
)
def test_a_seam_that_cannot_be_loaded_is_named(text, words):
    with pytest.raises(SeamMissing, match=words):
        load_projector(text)


@pytest.mark.parametrize(
    "text",
    [
        'subprocess:Popen{"args":["touch","MARK"]}',
        'pathlib:Path.touch{"self":"MARK"}',
        'builtins:open{"file":"MARK","mode":"w"}',
    ],
)
def test_a_strangers_log_runs_nothing(text, tmp_path):
    mark = tmp_path / "mark"
    for load in (load_projector, load_counter):
        with pytest.raises(SeamMissing):
            load(text.replace("MARK", str(mark)))
    assert not mark.exists()


def test_a_log_does_not_choose_which_modules_are_imported(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    (tmp_path / "planted.py").write_text(
        "import reducers.linear, pathlib\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
        "class Mine(reducers.linear.LinearProjector): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SeamMissing, match=r"'planted:Mine' .* import it first"):
        load_projector("planted:Mine")
    assert not mark.exists()
    importlib.import_module("planted")
    assert load_projector("planted:Mine").repair_orphans


def test_a_seam_that_fails_to_be_made_is_named():
    with pytest.raises(SeamMissing, match="not today"):
        load_counter(f"{__name__}:Failing")


def test_a_module_that_ends_the_program_does_not(tmp_path, monkeypatch):
    (tmp_path / "ending_module.py").write_text("raise SystemExit(3)")
    (tmp_path / "broken_module.py").write_text("def")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("ending_module", "broken_module"):
        with pytest.raises(InvalidInput, match=f"'{name}' does not import"):
            load_object(f"{name}:x")


def test_known_seams_stand_for_their_words():
    mine = Attrs(3)
    reducer = load_reducer(Seams(DEFAULT_SEAMS.projector, "nowhere:Mine"), {"nowhere:Mine": mine})
    assert reducer.counter is mine
    with pytest.raises(SeamMissing):
        load_reducer(Seams(DEFAULT_SEAMS.projector, "nowhere:Mine"))


# -- descriptions ------------------------------------------------------------------------------


def test_a_tool_is_described_by_what_it_has():
    plain = Tool("a")
    assert describe_tool(plain) == plain.described
    judged = Tool("a")
    judged.limit = lambda call: 10
    assert describe_tool(judged).judged
    telling = Tool("a")
    telling.reconcile = None
    assert describe_tool(telling).reconciles


def test_a_function_reconciles_only_if_it_has_a_reconciler():
    @tool
    def add(x: int) -> int:
        """Add."""
        return x

    assert not describe_tool(add).reconciles

    @add.reconciler
    def found(key):
        return None

    assert describe_tool(add).reconciles


@pytest.mark.accepts(367)
def test_policies_are_described_by_info_name_or_type():
    class Named(Policy):
        def name(self):
            return "mine"

    rules = Rules(allow=["a", "fs:read"], ask=["b"], deny=["*"], name="house")
    assert describe_policy(rules) == PolicyInfo(
        "house",
        (Rule(allow="a"), Rule(allow="fs:read"), Rule(ask="b"), Rule(deny="*")),
    )
    assert describe_policy(PolicyInfo("data", ())) == PolicyInfo("data", ())
    assert describe_policy(Named()) == PolicyInfo("mine")
    assert describe_policy(Policy()) == PolicyInfo("tests.effects.shell.Policy")


@pytest.mark.parametrize("text", ["", "a b", "fs:", ":read", "fs:read:write", "a*"])
def test_a_rule_that_can_match_nothing_is_refused(text):
    with pytest.raises(InvalidInput):
        Rules(allow=[text])
