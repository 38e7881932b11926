"""What every log promises, whichever keeps the commits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.logs.file import FileLog
from effects.logs.memory import MemoryLog
from effects.logs.port import LogDamaged, LogError, LogUnusable
from reducers import chain as chains
from reducers.vocabulary.errors import KernelError
from tests.effects.logs.samples import HEADER, commit, commits, large


@pytest.fixture(params=["memory", "file"])
def log(request, tmp_path):
    made = MemoryLog(HEADER) if request.param == "memory" else file_log(tmp_path)
    yield made
    made.close()


def file_log(folder):
    return FileLog.create(folder / "demo.log", HEADER, "memory")


def fill(log, count):
    for value in commits(log.position + 1, log.position + count):
        log.append(value)


def test_a_new_log_has_its_header_and_no_commit(log):
    assert log.header == HEADER
    assert log.position == 0
    assert log.chain == chains.frame_header(HEADER)[1]
    assert list(log.values()) == []


def test_each_append_moves_position_and_chain(log):
    for position in (1, 2, 3):
        expected = chains.link(log.chain, commit(position))
        log.append(commit(position))
        assert (log.position, log.chain) == (position, expected)
    assert list(log.values()) == commits(1, 3)


@pytest.mark.parametrize("since", [-1, 0, 1, 255, 256, 257, 599, 600, 601, 10_000])
def test_values_begin_behind_a_position(log, since):
    fill(log, 600)
    assert list(log.values(since)) == commits(max(since, 0) + 1, 600)


def test_values_are_those_of_the_moment_they_were_asked_for(log):
    fill(log, 3)
    values = log.values(1)
    fill(log, 2)
    assert list(values) == commits(2, 3)
    assert list(log.values(1)) == commits(2, 5)


def test_two_readers_do_not_disturb_each_other_or_the_writer(log):
    fill(log, 4)
    first, second = log.values(), log.values(2)
    assert next(first) == commit(1)
    fill(log, 1)
    assert list(second) == commits(3, 4)
    assert list(first) == commits(2, 4)


@pytest.mark.parametrize(
    "value",
    [
        commit(1),
        commit(3),
        commit(2) + b"\n",
        commit(2).replace(b'"position"', b'"place"'),
        b"{}",
        b"",
    ],
)
def test_what_is_not_the_next_commit_is_a_fault_and_changes_nothing(log, value):
    log.append(commit(1))
    before = (log.position, log.chain)
    with pytest.raises(ValueError, match=r"position 2|newline"):
        log.append(value)
    assert (log.position, log.chain) == before
    log.append(commit(2))
    assert list(log.values()) == commits(1, 2)


def test_contents_come_back_by_their_digest(log):
    first, second = large("a" * 300_000), large("b")
    log.append(commit(1), [first, second])
    log.append(commit(2), [first])
    assert log.content(first[0]) == first[1]
    assert log.content(second[0]) == second[1]
    assert list(log.values()) == commits(1, 2)


def test_a_content_that_is_not_there_is_damage(log):
    digest, _ = large("never stored")
    with pytest.raises(LogDamaged, match="missing"):
        log.content(digest)


@pytest.mark.parametrize("digest", ["", "../demo.log", "A" * 32, "a" * 31, "a" * 32 + "\n"])
def test_what_is_no_digest_never_becomes_a_name(log, digest):
    with pytest.raises(LogDamaged):
        log.content(digest)
    with pytest.raises(ValueError, match="does not have the digest"):
        log.append(commit(1), [(digest, b"content")])
    assert log.position == 0


def test_a_content_with_another_digest_is_a_fault_and_nothing_is_kept(log):
    good, (digest, _) = large("good"), large("right")
    with pytest.raises(ValueError, match="does not have the digest"):
        log.append(commit(1), [good, (digest, b"wrong")])
    assert (log.position, list(log.values())) == (0, [])
    for absent in (digest, good[0]):
        with pytest.raises(LogDamaged):
            log.content(absent)


def test_sync_changes_nothing_that_can_be_seen(log):
    log.sync()
    fill(log, 2)
    log.sync()
    log.sync()
    assert list(log.values()) == commits(1, 2)


def test_a_closed_log_takes_nothing_more(log):
    fill(log, 1)
    log.close()
    log.close()
    with pytest.raises(LogUnusable, match="it is closed"):
        log.append(commit(2))
    with pytest.raises(LogUnusable, match="it is closed"):
        log.sync()
    assert log.position == 1


def test_every_error_is_a_kernel_error():
    assert issubclass(LogError, KernelError)
    assert issubclass(LogUnusable, LogError)
    assert issubclass(LogDamaged, LogError)


def test_both_logs_write_the_same_bytes(tmp_path):
    memory, file = MemoryLog(HEADER), file_log(tmp_path)
    with file:
        for log in (memory, file):
            fill(log, 5)
        assert memory.chain == file.chain
    assert b"".join(memory.lines()) == (tmp_path / "demo.log").read_bytes()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.text(max_size=20)),
        st.tuples(st.just("values"), st.integers(0, 12)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("sync"), st.none()),
    ),
    max_size=12,
)


@given(operations=operations)
def test_a_file_is_a_list_of_commits_under_any_history(tmp_path_factory, operations):
    path = tmp_path_factory.mktemp("log") / "demo.log"
    log, model = FileLog.create(path, HEADER, "memory"), []
    for name, argument in operations:
        match name:
            case "append":
                model.append(commit(len(model) + 1, argument))
                log.append(model[-1])
            case "values":
                assert list(log.values(argument)) == model[argument:]
            case "reopen":
                chain = log.chain
                log.close()
                log = FileLog.open(path, "memory")
                assert (log.position, log.chain, log.torn) == (len(model), chain, 0)
            case "sync":
                log.sync()
    assert list(log.values()) == model
    log.close()
