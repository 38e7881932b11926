"""Numbers that no counter came to: a small gap folds, a far jump is refused at once."""

import msgspec
import pytest

from reducers.machines import context, questions
from reducers.machines.context import Context
from reducers.machines.questions import Questions
from reducers.state import evolve, initial
from reducers.vocabulary.events import Event, QuestionAnswered, QuestionOpened
from reducers.vocabulary.persistent import GAP_MAX

pytestmark = pytest.mark.timeout(20)
FAR = (0, -1, 10**6, 2**63 - 1, 10**30)


def added(id):
    item = {"id": id, "kind": {"tag": "user_message"}, "source": "user", "label": "user"}
    item |= {"content": {"tag": "text", "text": "x"}, "tokens": 1}
    return msgspec.convert({"tag": "context.added", "seq": 1, "item": item}, Event)


def opened(id):
    return QuestionOpened(id=id, kind="outcome", call="c")


def answered(id):
    return QuestionAnswered(id=id, how="settled")


@pytest.mark.parametrize("event", [added, opened, answered])
@pytest.mark.parametrize("id", FAR)
def test_a_number_out_of_reach_is_refused(event, id):
    with pytest.raises(ValueError, match=rf"^{id} is not the id of an? \w+: the next one is 1$"):
        evolve(initial("0011", "s"), event(id))


def test_a_gap_between_items_is_filled():
    made = context.added(Context(), added(1 + GAP_MAX), 1)
    assert (len(made.items), made.count, made.next_id) == (1 + GAP_MAX, 1, 2 + GAP_MAX)
    assert context.present(made)[0].id == 1 + GAP_MAX
    made = context.added(made, added(7), 1)
    assert [one.id for one in context.present(made)] == [7, 1 + GAP_MAX]
    with pytest.raises(ValueError, match="is not the id of an item"):
        context.added(made, added(3 + 2 * GAP_MAX), 1)


def test_a_gap_between_answers_is_filled():
    made = questions.answered(Questions(), answered(1 + GAP_MAX), 1)
    assert questions.how_answered(made, 1 + GAP_MAX) == "settled"
    assert questions.how_answered(made, GAP_MAX) is None
    assert made.next_id == 2 + GAP_MAX
    with pytest.raises(ValueError, match="is not the id of a question"):
        questions.opened(made, opened(3 + 2 * GAP_MAX), 1)


def test_the_last_of_very_many_open_questions_may_be_answered_first():
    made = Questions(next_id=10 * GAP_MAX)
    made = questions.answered(made, answered(10 * GAP_MAX - 1), 1)
    assert len(made.answered) == 10 * GAP_MAX - 1


def test_jump_upon_jump_costs_little():
    """Half a megabyte of them, each as far as may be."""
    made, asked = Context(), Questions()
    for n in range(1, 1500):
        made = context.added(made, added(n * GAP_MAX), 1)
        asked = questions.answered(asked, answered(n * GAP_MAX), 1)
    assert made.count == 1499
    assert len(asked.answered) == 1499 * GAP_MAX
