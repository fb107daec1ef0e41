from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.test_children import builder, delegates, family
from tests.support.confined import LAYERS, confined
from tests.support.everyday import FETCH, FROM_HOSTS, WITH_IDENTITY, Person
from tests.support.granted import GrantedFacts, skip_without_hosts
from tests.support.program import session_log
from tests.support.registries import PACKAGES, Registries
from tests.support.repl import (
    Live,
    answer_question,
    await_question,
    live,
    open_question,
    runs,
    says,
)
from tests.support.terminal import PyteTerm

AUTO = ("--mode", "auto", "--sandbox")


def read_facts(home: Path) -> GrantedFacts:
    return GrantedFacts(session_log(home))


def list_hosts(facts: GrantedFacts) -> list[tuple[str, str, str]]:
    """Return each host that was judged, the decision, and who made it."""
    return [
        (one["host"], one["verdict"]["decision"], one["verdict"]["by"])
        for one in facts.list_facts("host_judged")
    ]


def list_results(facts: GrantedFacts) -> list[str]:
    results = [fact["result"] for fact in facts.list_facts("call_finished")]
    return ["\n".join(block["text"] for block in one["content"]) for one in results]


def count_answers(home: Path) -> int:
    facts = read_facts(home)
    kinds = ("host_judged", "signature_judged", "call_judged")
    judged = [fact for kind in kinds for fact in facts.list_facts(kind)]
    return sum(one["verdict"]["by"] == "user" for one in judged)


def answer_when_asked(session: Live[PyteTerm], about: str, letter: str) -> str:
    """Answer the question about something. Return the screen with the question."""
    term = session.term
    open_question(term)
    term.wait(about)
    await_question(term)
    shown = "\n".join(term.screen())
    before = count_answers(session.home)
    answer_question(term, letter)
    term.wait_for(lambda: count_answers(session.home) > before, "the question is answered")
    return shown


@pytest.mark.parametrize("layer", LAYERS)
def test_everyday_work_is_granted_with_one_key_each(
    layer: str, person: Person, tmp_path: Path, registries: Registries
) -> None:
    skip_without_hosts(layer, tmp_path / "probe")
    works = [one for one in FROM_HOSTS if person.has(one)]
    for work in works:
        person.prepare(work)
    replies = [runs(str(one.commands[0]), f"toolu_{at}") for at, one in enumerate(works)]
    with live(
        person.base,
        [*replies, says("The end.")],
        arguments=(*AUTO, layer),
        env={**registries.environment, "PATH": person.path, "NO_PROXY": "127.0.0.1"},
        account=person.account,
        cols=120,
        rows=40,
    ) as session:
        term = session.term
        term.wait("auto · claude-")
        term.send("go")
        for work in works:
            asked = f"? network {str(work.commands[0])[:12]}"
            assert f"{work.host}:80" in answer_when_asked(session, asked, "y")
        term.wait("The end.")
        facts = read_facts(session.home)
    for work, result in zip(works, list_results(facts), strict=True):
        assert work.shows in result
    # The same host is asked about anew for each command.
    assert list_hosts(facts) == [(work.host, "allow", "user") for work in works]


@pytest.mark.parametrize("layer", LAYERS)
def test_work_as_the_user_is_granted_with_one_key_each_and_one_for_each_signature(
    layer: str, person: Person, tmp_path: Path, registries: Registries
) -> None:
    skip_without_hosts(layer, tmp_path / "probe")
    with ExitStack() as opened:
        works = []
        for one in WITH_IDENTITY:
            with suppress(pytest.skip.Exception):  # its server is not installed
                works.append(opened.enter_context(one(person, registries)))
        works = [one for one in works if person.has(one)]
        person.own_all()
        replies = [
            runs(
                str(one.commands[0]),
                f"toolu_{at}",
                needs=[*one.list_needs(), f"reason:release {at}"],
            )
            for at, one in enumerate(works)
        ]
        variables = {name: value for one in works for name, value in one.env.items()}
        session = opened.enter_context(
            live(
                person.base,
                [*replies, says("The end.")],
                arguments=(*AUTO, layer),
                env={
                    **registries.environment,
                    **variables,
                    "PATH": person.path,
                    "NO_PROXY": "127.0.0.1",
                },
                account=person.account,
                cols=120,
                rows=40,
            )
        )
        term = session.term
        term.wait("auto · claude-")
        term.send("go")
        for at, work in enumerate(works):
            shown = answer_when_asked(session, f"for: release {at}", "y")
            assert work.get_shown_grant() in shown
            if "ssh" in work.program:
                assert "log in as" in answer_when_asked(session, "? ssh-agent", "y")
        term.wait("The end.")
        facts = read_facts(session.home)
    for work, result in zip(works, list_results(facts), strict=True):
        assert work.shows in result
    given = [one["verdict"] for one in facts.list_facts("call_judged")]
    assert [(one["by"], one.get("lasts", "once")) for one in given] == [("user", "once")] * len(
        works
    )


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that no command may write by itself."""
    with TemporaryDirectory(prefix="agentcli-else-", dir="/var/tmp") as directory:
        yield Path(directory).resolve()


@pytest.mark.parametrize("layer", LAYERS)
def test_failed_command_is_offered_again_with_its_grant_which_ends_with_it(
    layer: str, tmp_path: Path, elsewhere: Path
) -> None:
    with confined(layer, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    need = f"write:{elsewhere}"
    replies = [
        runs(f"echo ran >> count; touch {elsewhere}/a", "toolu_1"),
        runs(f"touch {elsewhere}/a", "toolu_2", needs=[need, "reason:the report goes there"]),
        runs(f"touch {elsewhere}/b", "toolu_3"),
        runs(f"touch {elsewhere}/b", "toolu_4", needs=["outside", "reason:it must be"]),
        runs(f"touch {elsewhere}/c", "toolu_5"),
        says("The end."),
    ]
    arguments = (*AUTO, layer)
    with live(tmp_path, replies, arguments=arguments, cols=120, rows=40) as session:
        term = session.term
        term.wait("auto · claude-")
        term.send("go")
        shown = answer_when_asked(session, f"can also write {elsewhere}", "y")
        assert "the report goes there" in shown
        assert f"with can also write {elsewhere}" in shown  # what a lasting answer would store
        shown = answer_when_asked(session, "no sandbox: runs as you", "y")
        assert "it must be" in shown
        assert "touch:*" not in shown  # never for more than the exact command
        term.wait("The end.")
        facts, project = read_facts(session.home), session.project
        assert (project / "count").read_text() == "ran\n"
    first, granted, _, outside, _ = list_results(facts)
    assert f'needs: "{need}"' in first
    assert "exit code 0" in granted and "exit code 0" in outside
    assert sorted(path.name for path in elsewhere.iterdir()) == ["a", "b"]
    given = [one["verdict"].get("grants", {}) for one in facts.list_facts("call_judged")]
    assert [one.get("writable", []) for one in given] == [[], [str(elsewhere)], [], [], []]
    assert [one.get("outside", False) for one in given] == [False, False, False, True, False]


def test_host_that_was_given_once_is_asked_about_anew_for_a_child_with_the_same_call_id(
    tmp_path: Path, registries: Registries
) -> None:
    skip_without_hosts("bubblewrap", tmp_path / "probe")
    (tmp_path / "home").mkdir()
    builder(tmp_path / "home")
    said = [runs(FETCH, "toolu_7"), says("Fetched.")]
    script = family(
        lambda request: said.pop(0),
        *(runs(FETCH, "toolu_7"), delegates("fetch", role="builder"), says("The end.")),
    )
    with live(
        tmp_path,
        script,
        arguments=(*AUTO, "bubblewrap"),
        env={**registries.environment, "NO_PROXY": "127.0.0.1"},
        cols=120,
        rows=40,
    ) as session:
        term = session.term
        term.wait("auto · claude-")
        term.send("go")
        answer_when_asked(session, f"{PACKAGES}:80", "y")
        term.wait("child agent builder")
        answer_question(term, "n")  # recorded in the log of the child
        term.wait("The end.")
    assert len([one for one in registries.asked if one.host == PACKAGES]) == 1
