import json
import shutil
from pathlib import Path

import pytest

from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.log.sessions import search_session
from agentcli.types.events import CallJudged, ContextNote, Fact, SessionEnded, TokensSpent
from tests.support.program import agentcli, script

FORMAT_1 = Path(__file__).parents[2] / "fixtures" / "old_logs" / "format_1"
IDS = {
    "answers": "20261117-011732-c708",
    "evaluated": "20261117-011736-3a68",
    "closed_pipe": "20261117-011740-4582",
}
OLD_WORDS = ('"told"', '"person"', '"opinion"', '"reader_left"', '"confinement"')


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(FORMAT_1, tmp_path / ".local/state/agentcli")
    return tmp_path


def read_facts(name: str) -> list[Fact]:
    return [
        entry.fact for entry in read_log(FORMAT_1 / "sessions" / IDS[name] / "log.jsonl").entries
    ]


def test_old_words_are_read_as_the_new_ones() -> None:
    answers = read_facts("answers")
    judged = [fact.verdict for fact in answers if isinstance(fact, CallJudged)]
    assert [verdict.by for verdict in judged] == ["user"] * 5 + ["rule"]
    assert [verdict.grants.network for verdict in judged] == [False] * 5 + [True]
    notes = [str(fact.why) for fact in answers if isinstance(fact, ContextNote)]
    assert notes == ["instructions", "user ran", "environment", "user", "undo", "redo"]
    spent = [fact.why for fact in read_facts("evaluated") if isinstance(fact, TokensSpent)]
    assert spent == ["evaluation"]
    ended = [fact.ending for fact in read_facts("closed_pipe") if isinstance(fact, SessionEnded)]
    assert ended == ["output_closed"]


def test_search_names_facts_of_old_logs_in_new_words() -> None:
    session = SessionPaths(id="s", directory=FORMAT_1 / "sessions" / IDS["answers"])
    assert {hit.fact for hit in search_session(session, "keep it short")} == {"context_note"}


@pytest.mark.parametrize("name", IDS)
def test_old_log_is_verified_replayed_diagnosed_and_exported(name: str, home: Path) -> None:
    verified = agentcli("audit", "verify", name, home=home)
    assert (verified.code, verified.out.startswith("intact: ")) == (0, True), verified.out
    replayed = agentcli("replay", "--check", name, home=home)
    assert replayed.code == 0, replayed.out
    assert agentcli("trace", name, home=home).code == 0
    assert "damaged" not in agentcli("triage", name, home=home).out
    exported = agentcli("export", name, "--format", "json", home=home)
    assert exported.code == 0
    assert [word for word in OLD_WORDS if word in exported.out] == []


def test_answers_in_an_old_log_are_told_in_plain_words(home: Path) -> None:
    traced = agentcli("trace", "answers", home=home).out
    assert "approved by you, once" in traced
    assert "approved by you, for this session" in traced
    assert 'denied by you: "use unittest instead"' in traced
    shown = agentcli("sessions", "show", "answers", home=home).out
    assert 'denied     bash: denied by you: "use unittest instead"' in shown


def test_changes_of_an_old_session_are_undone(home: Path) -> None:
    workspace = home / ".local/state/agentcli/work/answers"
    (workspace / "online").mkdir()  # git keeps no empty directory
    assert agentcli("undo", "answers", "--turn", "1", "-C", workspace, home=home).code == 0
    assert sorted(path.name for path in workspace.iterdir()) == ["AGENTS.md", "calc.py"]
    assert "(len(values) + 1)" in (workspace / "calc.py").read_text()
    assert agentcli("undo", "answers", "--redo", "-C", workspace, home=home).code == 0
    assert "/ len(values)" in (workspace / "calc.py").read_text()


def test_old_sessions_count_in_the_stats(home: Path) -> None:
    stats = json.loads(agentcli("stats", "--since", "all", "-o", "json", home=home).out)
    total = stats["total"]
    assert (stats["sessions"], total["turns"], total["requests"]) == (3, 4, 12)
    assert (total["calls"], total["denials"]) == (8, 2)


def test_old_session_goes_on_in_the_new_format(home: Path) -> None:
    workspace = home / ".local/state/agentcli/work/answers"
    model = script(home / "s.json", [{"calls": [{"read_file": {"path": "calc.py"}}]}, "Read."])
    resumed = ("run", "--resume", "answers", "-C", workspace, "--model", model, "go on")
    assert agentcli(*resumed, home=home).code == 0
    log = home / ".local/state/agentcli/sessions" / IDS["answers"] / "log.jsonl"
    formats = [json.loads(line)["v"] for line in log.read_text().splitlines()]
    assert sorted(set(formats)) == [1, 2]
    assert formats == sorted(formats)
    assert agentcli("audit", "verify", "answers", home=home).code == 0
