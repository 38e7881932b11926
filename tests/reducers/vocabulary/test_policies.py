"""Rules that are data: who speaks, who wins, and which words are a rule at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.policies import Rule, judge, parse_rule, strictest
from reducers.vocabulary.tools import parse_capability

ALLOW, ASK, DENY = "allow", "ask", "deny"
SUBJECTS = ("add", "write", "fs:read", "fs:write", "*")
RULES = st.builds(
    parse_rule, st.sampled_from([ALLOW, ASK, DENY]), st.sampled_from(SUBJECTS)
)  # fmt: skip
NEEDS = st.lists(st.sampled_from(["fs:read", "fs:write"]), unique=True).map(tuple)


@pytest.mark.parametrize(
    ("rules", "tool", "needs", "verdict"),
    [
        ((), "add", (), ASK),
        ((Rule(allow="add"),), "add", (), ALLOW),
        ((Rule(allow="add"),), "write", (), ASK),
        ((Rule(allow="*"),), "write", ("fs:write",), ALLOW),
        ((Rule(allow="*"), Rule(deny="write")), "write", (), DENY),
        ((Rule(deny="*"), Rule(allow="add")), "add", (), DENY),
        ((Rule(allow="add"), Rule(ask="add")), "add", (), ASK),
        ((Rule(allow="fs:read"),), "read", ("fs:read",), ALLOW),
        ((Rule(allow="fs:read"),), "copy", ("fs:read", "fs:write"), ASK),
        ((Rule(allow="fs:read"), Rule(allow="fs:write")), "copy", ("fs:read", "fs:write"), ALLOW),
        ((Rule(allow="copy"),), "copy", ("fs:read", "fs:write"), ALLOW),
        ((Rule(allow="copy"), Rule(deny="fs:write")), "copy", ("fs:write",), DENY),
        ((Rule(allow="fs:read"),), "add", (), ASK),
    ],
)
def test_judging(rules, tool, needs, verdict):
    assert judge(rules, tool, needs)[0] == verdict


@given(st.lists(RULES, max_size=5), st.sampled_from(["add", "write"]), NEEDS)
def test_the_strictest_rule_that_speaks_wins_and_is_named(rules, tool, needs):
    verdict, why = judge(tuple(rules), tool, needs)
    spoken = [rule for rule in rules if rule.subject in ("*", tool, *needs)]
    if any(rule.verdict == DENY for rule in spoken):
        assert verdict == DENY
    elif any(rule.verdict == ASK for rule in spoken) or not spoken:
        assert verdict == ASK
    elif any(rule.subject in ("*", tool) for rule in spoken):
        assert verdict == ALLOW
    else:
        assert (verdict == ALLOW) == all(need in [r.subject for r in spoken] for need in needs)
    if why is not None:
        assert any(why == f'the rule {verdict} "{rule.subject}"' for rule in spoken)
    assert judge(tuple(reversed(rules)), tool, needs)[0] == verdict, "order does not matter"


def test_strictness():
    assert strictest([]) is None
    assert strictest([ALLOW, ASK]) == ASK
    assert strictest([DENY, ALLOW, ASK]) == DENY


@pytest.mark.parametrize("subject", ["add", "fs:write", "*", " add "])
def test_words_that_are_a_rule(subject):
    for verdict in (ALLOW, ASK, DENY):
        rule = parse_rule(verdict, subject)
        assert (rule.verdict, rule.subject) == (verdict, subject.strip())


@pytest.mark.parametrize("subject", ["", "  ", "two words", "fs:*", "a:b:c", ":write", "fs:", "**"])
def test_words_that_are_not_are_refused_by_name(subject):
    with pytest.raises(InvalidInput) as refusal:
        parse_rule(ALLOW, subject)
    assert repr(subject.strip()) in str(refusal.value) or repr(subject) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("write", "names no operation"), ("a:b:c", "one colon"), ("a:", "one colon")],
)
def test_a_capability_is_two_words(text, problem):
    assert parse_capability("fs:write") == "fs:write"
    with pytest.raises(InvalidInput, match=problem):
        parse_capability(text)
