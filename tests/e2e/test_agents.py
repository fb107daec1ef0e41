import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentcli.agent.children import CHILD_INSTRUCTIONS, WORKER_INSTRUCTIONS
from agentcli.log.audit import audit_log
from agentcli.providers.catalog import compute_cost_usd, resolve
from agentcli.types.messages import Usage
from tests.support import anthropic_streams as anthropic
from tests.support.processes import running, unique_seconds
from tests.support.program import PROGRAM, Ran, agentcli, environment, read_facts, session_log
from tests.support.provider import Provider, Recorded, Reply, sse, stream
from tests.support.repl import KEY, answer_question, git, live, says
from tests.support.terminal import until

pytestmark = pytest.mark.usefixtures("verified_logs")

SCHEMA = Path(__file__).parents[2] / "docs/reference/stream-json.schema.json"
FORM = Draft202012Validator(json.loads(SCHEMA.read_text()))
Answer = Callable[[Recorded], Reply]
USAGE = {"input_tokens": 1000, "output_tokens": 100}
ROLE = """---
name: worker
description: changes things
isolation: worktree
background: true
---
Be quick.
"""
SHARED = "".join(f"line {number}\n" for number in range(200))


def is_agents(request: Recorded) -> bool:
    return WORKER_INSTRUCTIONS in str(request.json["messages"])


def find_number(request: Recorded) -> int:
    found = re.search(r"change number (\d+)", str(request.json["messages"]))
    assert found
    return int(found[1])


def count_replies(request: Recorded) -> int:
    return sum(message["role"] == "assistant" for message in request.json["messages"])


def priced(*blocks: Any) -> Reply:
    reason = "end_turn" if len(blocks) == 1 and blocks[0][0]["type"] == "text" else "tool_use"
    final = {"output_tokens": USAGE["output_tokens"]}
    events = anthropic.events(list(blocks), stop_reason=reason, usage=USAGE, final_usage=final)
    return stream(sse(events))


def change(request: Recorded) -> Reply:
    """Each agent changes a line of a file that all of them change, and makes a file of its own."""
    number = find_number(request)
    match count_replies(request):
        case 0:
            read = {"path": "shared.txt"}
            return priced(anthropic.call(f"toolu_{number}_0", "read_file", read))
        case 1:
            edit = {
                "path": "shared.txt",
                "old_text": f"line {10 * number}\n",
                "new_text": f"line {10 * number} by agent {number}\n",
            }
            write = {"path": f"new/{number}.txt", "content": f"{number}\n"}
            return priced(
                anthropic.call(f"toolu_{number}_1", "edit_file", edit),
                anthropic.call(f"toolu_{number}_2", "write_file", write),
            )
        case _:
            return priced(anthropic.text(f"Changed line {10 * number}."))


def delegates(*numbers: int, role: str = "worker") -> Reply:
    return priced(
        *(
            anthropic.call(
                f"toolu_d{number}", "delegate", {"task": f"change number {number}", "role": role}
            )
            for number in numbers
        )
    )


class Crew:
    def __init__(self, home: Path, workspace: Path) -> None:
        self.home, self.workspace = home, workspace
        (workspace / "shared.txt").write_text(SHARED)
        self.write_role(ROLE)
        git(workspace, "init", "-q")
        git(workspace, "add", ".")
        git(workspace, "commit", "-q", "-m", "one")

    def write_role(self, text: str) -> None:
        folder = self.workspace / ".agentcli" / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "worker.md").write_text(text)

    def run(
        self,
        agent: Answer,
        *parent: Reply,
        flags: tuple[str, ...] = (),
        mode: str = "auto-edit",
        settings: dict[str, str] | None = None,
    ) -> Ran:
        left, lock = list(parent), threading.Lock()

        def reply(request: Recorded) -> Reply:
            if is_agents(request):
                return agent(request)
            with lock:
                return left.pop(0)

        with Provider([reply] * 1000) as provider:
            env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
            env |= {f"AGENTCLI_{key.upper()}": value for key, value in (settings or {}).items()}
            options = ("--model", "opus", "--mode", mode, "--trust-project", *flags)
            ran = agentcli("run", "-C", self.workspace, *options, "go", home=self.home, env=env)
            self.bodies = provider.bodies
        return ran

    def facts(self, kind: str) -> list[dict[str, Any]]:
        facts = read_facts(session_log(self.home))
        return [fact for fact in facts if fact["type"] == kind]

    def trees(self) -> list[Path]:
        return sorted(self.home.rglob("agentcli-worktrees/*/*.json"))


@pytest.fixture
def crew(home: Path, workspace: Path) -> Crew:
    return Crew(home, workspace)


def price(requests: int) -> float:
    usage = Usage(input_tokens=1000, output_tokens=100)
    return requests * (compute_cost_usd(resolve("opus"), usage) or 0.0)


def test_ten_agents_at_once_lose_no_edit_and_cost_what_the_provider_counts(crew: Crew) -> None:
    (crew.workspace / "shared.txt").write_text(SHARED.replace("line 5\n", "line 5 uncommitted\n"))
    ran = crew.run(
        change, delegates(*range(1, 11)), priced(anthropic.text("Wait.")), says("All done.")
    )
    assert ran.code == 0, ran.err
    lines = (crew.workspace / "shared.txt").read_text().splitlines()
    assert [lines[10 * number] for number in range(1, 11)] == [
        f"line {10 * number} by agent {number}" for number in range(1, 11)
    ]
    assert lines[5] == "line 5 uncommitted" and len(lines) == 200
    assert sorted(path.name for path in (crew.workspace / "new").iterdir()) == sorted(
        f"{number}.txt" for number in range(1, 11)
    )
    ended = crew.facts("agent_ended")
    assert len(ended) == 10 and {one["turn"]["ending"] for one in ended} == {"done"}
    assert sum(one["turn"]["cost_usd"] for one in ended) == pytest.approx(price(30))
    assert [one["verdict"]["decision"] for one in crew.facts("patch_decided")] == ["allow"] * 10
    assert crew.trees() == []
    assert audit_log(session_log(crew.home)).status == "intact"


def test_limits_of_number_and_money_hold_before_an_agent_starts(crew: Crew) -> None:
    """Each agent would read on for ever; nine cannot start, or the tenth."""

    def read_on(request: Recorded) -> Reply:
        count = count_replies(request)
        arguments = {"path": "shared.txt", "offset": count + 1}
        return priced(anthropic.call(f"toolu_r{count}", "read_file", arguments))

    ran = crew.run(
        read_on,
        delegates(*range(1, 11)),
        priced(anthropic.text("Wait.")),
        says("All ended."),
        flags=("--max-cost", "1.00"),
        settings={"agent_max_cost": "0.30", "agents_max": "8"},
    )
    assert ran.code == 0, ran.err
    results = [fact["result"] for fact in crew.facts("call_finished")]
    started = [one for one in results if one["status"] == "ok"]
    refused = [one["content"][0]["text"] for one in results if one["status"] != "ok"]
    assert len(started) == 3 and len(refused) == 7
    assert all("is more than is left" in text for text in refused)
    spent = [one["turn"]["cost_usd"] for one in crew.facts("agent_ended")]
    assert len(spent) == 3 and max(spent) <= 0.30
    assert min(spent) > 0.15  # what is left is less than one more request may cost
    by_agents = sum(is_agents_body(body) for body in crew.bodies)
    assert sum(spent) == pytest.approx(price(by_agents))
    assert price(len(crew.bodies)) <= 1.00
    assert {one["max_cost_usd"] for one in crew.facts("agent_started")} == {0.3}


def is_agents_body(body: Any) -> bool:
    return WORKER_INSTRUCTIONS in str(body["messages"])


def test_number_of_agents_is_limited_and_none_starts_another(crew: Crew) -> None:
    crew.write_role(ROLE.replace("background", "tools: '*'\nbackground"))
    ran = crew.run(
        change,
        delegates(1, 2, 3),
        priced(anthropic.text("Wait.")),
        says("Done."),
        settings={"agents_max": "2"},
    )
    assert ran.code == 0, ran.err
    refused = [
        fact["result"]["content"][0]["text"]
        for fact in crew.facts("call_finished")
        if fact["result"]["status"] != "ok"
    ]
    assert [text.startswith("2 agents can work at a time") for text in refused] == [True]
    tools = [
        {tool["name"] for tool in body["tools"]} for body in crew.bodies if is_agents_body(body)
    ]
    assert tools and all("edit_file" in names and "delegate" not in names for names in tools)


def test_agents_that_change_the_same_line_lose_neither_change(crew: Crew) -> None:
    def same(request: Recorded) -> Reply:
        number = find_number(request)
        text = f"{SHARED}by agent {number}\n"
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_r", "read_file", {"path": "shared.txt"}))
        if count_replies(request) == 1:
            edit = {"path": "shared.txt", "old_text": "line 7\n", "new_text": f"{number}\n"}
            return priced(anthropic.call("toolu_e", "edit_file", edit))
        return priced(anthropic.text(text[-20:]))

    parent = (delegates(1, 2), priced(anthropic.text("Wait.")), says("Done."))
    ran = crew.run(same, *parent, flags=("-o", "stream-json", "--partial"))
    assert ran.code == 0, ran.err
    assert [error.message for row in ran.events for error in FORM.iter_errors(row)] == []
    told = [row for row in ran.events if row["type"].startswith("agent.")]
    assert sorted((row["agent"], row["type"]) for row in told) == [
        (number, f"agent.{word}") for number in (1, 2) for word in ("ended", "patch", "started")
    ]
    ended = [row for row in told if row["type"] == "agent.ended"]
    assert [row["cost_usd"] for row in ended] == pytest.approx([price(3)] * 2)
    assert [row["files"] for row in ended] == [["shared.txt"]] * 2
    decided = [(row["decision"], row["files"]) for row in told if row["type"] == "agent.patch"]
    assert decided == [("allow", ["shared.txt"]), ("allow", [])]
    first, second = crew.facts("patch_decided")
    assert first["paths"] == ["shared.txt"] and "conflicts" not in first
    assert second["conflicts"] == ["shared.txt"] and "paths" not in second
    assert (crew.workspace / "shared.txt").read_text() == SHARED.replace("line 7\n", "1\n")
    (kept,) = crew.trees()
    tree = Path(json.loads(kept.read_text())["tree"])
    assert (tree / "shared.txt").read_text() == SHARED.replace("line 7\n", "2\n")
    saved = session_log(crew.home).parent / "conflicts" / "agent-2"
    assert {path.stat().st_mode & 0o777 for path in saved.iterdir()} == {0o600}
    assert "<<<<<<< yours\n1\n=======\n2\n>>>>>>> agent-" in "".join(
        path.read_text() for path in saved.iterdir()
    )
    assert "Not merged, because of conflicts: shared.txt." in str(crew.bodies[-1])


def test_patch_that_nobody_can_approve_is_kept_and_shows_in_the_exit_code(crew: Crew) -> None:
    ran = crew.run(change, delegates(1), priced(anthropic.text("Wait.")), says("Done."), mode="ask")
    assert ran.code == 5, ran.err
    assert "the patch of agent 1 was denied" in ran.err
    assert (crew.workspace / "shared.txt").read_text() == SHARED
    patch = session_log(crew.home).parent / "out" / "agent-1.patch"
    assert "+line 10 by agent 1\n" in patch.read_text()
    (kept,) = crew.trees()
    merged = agentcli("worktree", "merge", kept.stem, "-C", crew.workspace, home=crew.home)
    assert merged.code == 0, merged.err
    assert "line 10 by agent 1\n" in (crew.workspace / "shared.txt").read_text()


def test_patch_that_ignores_a_file_of_the_user_does_not_delete_it(crew: Crew) -> None:
    (crew.workspace / "notes.txt").write_text("the only copy\n")

    def ignore(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            write = {"path": ".gitignore", "content": "notes.txt\n"}
            return priced(anthropic.call("toolu_w", "write_file", write))
        return priced(anthropic.text("Done."))

    ran = crew.run(ignore, delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    assert ran.code == 0, ran.err
    (ended,) = crew.facts("agent_ended")
    assert ended["paths"] == [".gitignore"]
    assert (crew.workspace / ".gitignore").read_text() == "notes.txt\n"
    assert (crew.workspace / "notes.txt").read_text() == "the only copy\n"


@pytest.mark.parametrize("change_too", [True, False])
def test_commits_of_an_agent_stay_on_a_branch(crew: Crew, change_too: bool) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m theirs"
    command = f"echo more >> shared.txt; {commit} -a" if change_too else commit

    def work(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_b", "bash", {"command": command}))
        return priced(anthropic.text("Done."))

    parent = (delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    ran = crew.run(work, *parent, mode="auto", flags=("--sandbox", "off"))
    assert ran.code == 0, ran.err
    branch = f"agentcli/agent-{session_log(crew.home).parent.name}-1"
    assert f"agent 1 made commits, which stay on the branch {branch}" in ran.err
    log = ["git", "log", "-1", "--format=%s", branch]
    assert subprocess.check_output(log, cwd=crew.workspace) == b"theirs\n"
    assert crew.trees() == []
    assert (crew.workspace / "shared.txt").read_text() == SHARED + "more\n" * change_too


def test_repository_that_an_agent_made_stays_in_its_worktree(crew: Crew) -> None:
    command = "git init -q sub; echo new > sub/new.txt"

    def work(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_b", "bash", {"command": command}))
        return priced(anthropic.text("Done."))

    parent = (delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    ran = crew.run(work, *parent, mode="auto", flags=("--sandbox", "off"))
    assert ran.code == 0, ran.err
    assert (crew.workspace / "sub" / "new.txt").read_text() == "new\n"
    (kept,) = crew.trees()
    assert (
        "agent 1 made the repository sub, so its worktree stays; to remove it: agentcli " in ran.err
    )
    assert (Path(json.loads(kept.read_text())["tree"]) / "sub" / ".git").is_dir()
    done = agentcli("worktree", "discard", kept.stem, "--yes", "-C", crew.workspace, home=crew.home)
    assert done.code == 0 and crew.trees() == []


def test_stored_patch_shows_no_secret_and_is_for_the_user_alone(crew: Crew) -> None:
    secret = "Zq8Lk2Vt9Xw4Rb7Ny1Mc6Pd3"
    (crew.workspace / "conf.env").write_text(f"A=1\nMY_API_TOKEN={secret}\nB=2\n")

    def edit(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_r", "read_file", {"path": "conf.env"}))
        if count_replies(request) == 1:
            edit = {"path": "conf.env", "old_text": "B=2", "new_text": "B=3"}
            return priced(anthropic.call("toolu_e", "edit_file", edit))
        return priced(anthropic.text("Done."))

    parent = (delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    ran = crew.run(edit, *parent)
    assert ran.code == 0, ran.err
    assert (crew.workspace / "conf.env").read_text() == f"A=1\nMY_API_TOKEN={secret}\nB=3\n"
    session = session_log(crew.home).parent
    patch = session / "out" / "agent-1.patch"
    assert " MY_API_TOKEN=«secret:" in patch.read_text() and "+B=3\n" in patch.read_text()
    for path in session.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
            assert path.stat().st_mode & 0o777 == 0o600, path


def test_merged_patch_is_undone_and_the_session_replays(crew: Crew) -> None:
    reads = priced(anthropic.call("toolu_p", "read_file", {"path": "shared.txt"}))
    ran = crew.run(change, delegates(1, 2), priced(anthropic.text("Wait.")), reads, says("Done."))
    assert ran.code == 0, ran.err
    ran = crew.run(change, delegates(3), says("Wait."), flags=("--continue", "--max-turns", "2"))
    again = crew.run(change, reads, says("Read."), flags=("--continue",))
    assert again.code == 0, again.err
    replayed = agentcli("replay", session_log(crew.home).parent.name, home=crew.home)
    assert replayed.code == 0, replayed.out + replayed.err
    for _ in range(2):
        undone = agentcli("undo", "-C", crew.workspace, home=crew.home)
        assert undone.code == 0, undone.err
    assert (crew.workspace / "shared.txt").read_text() == SHARED
    assert not (crew.workspace / "new").exists()


def test_isolated_role_that_is_not_in_the_background_is_waited_for(crew: Crew) -> None:
    crew.write_role(ROLE.replace("background: true\n", ""))
    ran = crew.run(change, delegates(1), says("Done."), mode="auto")
    assert ran.code == 0, ran.err
    (result,) = [fact["result"] for fact in crew.facts("call_finished")]
    assert "its patch is merged" in result["content"][0]["text"]
    assert "line 10 by agent 1\n" in (crew.workspace / "shared.txt").read_text()


def test_without_git_an_agent_says_why_it_does_not_start(crew: Crew) -> None:
    shutil.rmtree(crew.workspace / ".git")
    ran = crew.run(change, delegates(1), says("It cannot."))
    assert ran.code == 0, ran.err
    (result,) = [fact["result"] for fact in crew.facts("call_finished")]
    assert "is not in a git repository" in result["content"][0]["text"]
    assert crew.facts("agent_started") == []


def reply_as(agent: Answer, *parent: Reply) -> Answer:
    left, lock = list(parent), threading.Lock()

    def reply(request: Recorded) -> Reply:
        if is_agents(request):
            return agent(request)
        with lock:
            return left.pop(0)

    return reply


def make_repository(project: Path) -> None:
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        git(project, *words)


FILES = {"shared.txt": SHARED, ".agentcli/agents/worker.md": ROLE}
TRUST = ("--trust-project",)


def test_patch_is_asked_about_accepted_and_undone_in_a_session(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    reply = reply_as(change, delegates(1), says("It works beside us."), says("I know."))
    with live(tmp_path, [reply] * 50, files=FILES, arguments=TRUST, cols=120, rows=40) as it:
        make_repository(it.project)
        it.term.ready()
        it.term.send("start one")
        it.term.wait("It works beside us.")
        it.term.wait("? apply_patch new/1.txt, shared.txt")
        it.term.wait("+ line 10 by agent 1")
        answer_question(it.term, "y")
        it.term.wait("agent 1: its patch is merged: ")
        assert "line 10 by agent 1\n" in (it.project / "shared.txt").read_text()
        it.term.send("/agents")
        it.term.wait("patch merged")
        it.term.send("and now?")
        it.term.wait("I know.")
        assert "Agent 1 (worker): its patch is merged: new/1.txt" in str(it.model.bodies[-1])
        it.term.send("/undo")
        it.term.wait("Undid change")
        assert (it.project / "shared.txt").read_text() == SHARED


def test_stopped_agent_leaves_no_process_and_its_patch_waits(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    seconds, is_watched = unique_seconds(), threading.Event()

    def sleep(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            write = {"path": "half.txt", "content": "half\n"}
            return priced(anthropic.call("toolu_w", "write_file", write))
        assert is_watched.wait(60)
        return priced(anthropic.call("toolu_s", "bash", {"command": f"sleep {seconds}"}))

    reply = reply_as(sleep, delegates(1), says("Started."))
    arguments = (*TRUST, "--mode", "auto", "--sandbox", "off")
    with live(tmp_path, [reply] * 50, files=FILES, arguments=arguments) as it:
        make_repository(it.project)
        it.term.wait("auto, no sandbox")
        it.term.send("start one")
        it.term.wait("Started.")
        it.term.wait("1 agent $0.01")
        it.term.send("/mode ask")
        it.term.wait("Ask mode")
        it.term.send("/agents")
        it.term.wait("1 worker  running  1.1k tok  $0.01  write_file half.txt")
        is_watched.set()
        it.term.wait(f"1 worker  running  2.2k tok  $0.01  bash sleep {seconds}")
        it.term.wait_for(lambda: running(f"sleep {seconds}"), "it runs a command")
        it.term.type("\r")
        it.term.wait("agent 1 (worker) is at work")
        it.term.send("stop")
        it.term.wait("Stopped agent 1 (worker).")
        assert running(f"sleep {seconds}") == []
        it.term.wait("? apply_patch")
        answer_question(it.term, "n")
        it.term.wait("its patch was refused")
        assert not (it.project / "half.txt").exists()
        (patch,) = it.home.rglob("out/agent-1.patch")
        assert "+half\n" in patch.read_text()


def test_killed_with_its_agents_a_session_says_what_became_of_them(crew: Crew) -> None:
    def stall(request: Recorded) -> Reply:
        if count_replies(request) < 2:
            return change(request)
        return says("Never.").but(stall_before_headers=True)

    reply = reply_as(stall, delegates(1, 2), priced(anthropic.text("Wait.")))
    with Provider([reply] * 100) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        options = ("--model", "opus", "--mode", "auto-edit", "--trust-project")
        process = subprocess.Popen(
            [PROGRAM, "run", "-C", crew.workspace, *options, "go"],
            env=environment(crew.home, **env),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        done = "new/[12].txt"
        until(
            lambda: len([*crew.home.rglob(f"agentcli-worktrees/*/*/{done}")]) == 2,
            "both agents have changed their files",
        )
        until(lambda: sum(map(is_agents_body, provider.bodies)) == 6, "both wait for the model")
        process.kill()
        process.wait()
    assert (crew.workspace / "shared.txt").read_text() == SHARED
    ran = crew.run(change, says("I see."), flags=("--continue",))
    assert ran.code == 0, ran.err
    for number in (1, 2):
        assert f"agent {number} did not finish: agentcli ended while it was at work" in ran.err
        assert f"[Agent {number} did not finish: agentcli ended" in str(crew.bodies[-1])
    lost = crew.facts("agent_ended")
    assert [one["was_lost"] for one in lost] == [True, True]
    assert sum(one["turn"]["cost_usd"] for one in lost) == pytest.approx(price(4))
    assert audit_log(session_log(crew.home)).status == "intact"
    for kept in crew.trees():
        merged = agentcli("worktree", "merge", kept.stem, "-C", crew.workspace, home=crew.home)
        assert merged.code == 0, merged.out + merged.err
    text = (crew.workspace / "shared.txt").read_text()
    assert "line 10 by agent 1\n" in text and "line 20 by agent 2\n" in text


def test_patch_is_merged_as_the_user_edits_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^+line 10 by agent 1/+line 10 by us/' \"$1\"\n")
    editor.chmod(0o755)
    reply = reply_as(change, delegates(1), says("It works beside us."))
    env = {"EDITOR": str(editor)}
    with live(
        tmp_path, [reply] * 50, files=FILES, arguments=TRUST, cols=120, rows=40, env=env
    ) as it:
        make_repository(it.project)
        it.term.ready()
        it.term.send("start one")
        it.term.wait("? apply_patch")
        (it.project / "shared.txt").write_text(SHARED.replace("line 90\n", "line ninety\n"))
        answer_question(it.term, "m")
        it.term.wait("its patch, edited by the user, is merged")
        expected = SHARED.replace("line 90\n", "line ninety\n")
        expected = expected.replace("line 10\n", "line 10 by us\n")
        assert (it.project / "shared.txt").read_text() == expected
        assert (it.project / "new" / "1.txt").read_text() == "1\n"


@pytest.mark.parametrize("is_foreign", [False, True])
def test_edited_patch_gets_its_hidden_values_back_or_is_refused(
    tmp_path: Path, is_foreign: bool
) -> None:
    (tmp_path / "project").mkdir()
    editor = tmp_path / "editor"
    change = "s/secret:......../secret:00000000/" if is_foreign else "s/B=3/B=4/"
    editor.write_text(f'#!/bin/sh\nsed -i "{change}" "$1"\n')
    editor.chmod(0o755)

    def write(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            secret = {"path": "n.env", "content": "TEST_PASSWORD=hunter2xyz9\nB=3\n"}
            return priced(anthropic.call("toolu_w", "write_file", secret))
        return priced(anthropic.text("Done."))

    reply = reply_as(write, delegates(1), says("It works beside us."))
    env = {"EDITOR": str(editor)}
    with live(
        tmp_path, [reply] * 50, files=FILES, arguments=TRUST, cols=120, rows=40, env=env
    ) as it:
        make_repository(it.project)
        it.term.ready()
        it.term.send("start one")
        it.term.wait("TEST_PASSWORD=«secret:")
        answer_question(it.term, "m")
        made = it.project / "n.env"
        if is_foreign:
            it.term.wait("its patch was refused: the edited text has «secret:00000000»")
            assert not made.exists()
            (kept,) = it.home.rglob("agentcli-worktrees/*/*/n.env")
            assert "hunter2xyz9" in kept.read_text()
        else:
            it.term.wait("its patch, edited by the user, is merged")
            assert made.read_text() == "TEST_PASSWORD=hunter2xyz9\nB=4\n"


def test_patch_in_line_mode_waits_until_the_user_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    reply = reply_as(change, delegates(1), says("It works beside us."))
    with live(tmp_path, [reply] * 50, files=FILES, arguments=TRUST, env={"ACCESSIBLE": "1"}) as it:
        make_repository(it.project)
        it.term.wait("/help lists the commands")
        it.term.send("start one")
        it.term.wait("its patch waits (2 files +2 -1)")
        it.term.send("/agents 1")
        it.term.wait("or type what to do")
        it.term.send("y")
        it.term.wait("agent 1: its patch is merged")
        assert "line 10 by agent 1\n" in (it.project / "shared.txt").read_text()


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_command_of_an_agent_reaches_its_own_worktree_alone(crew: Crew, layer: str) -> None:
    target = crew.workspace / "shared.txt"
    command = f"echo mine > own.txt; echo theirs > {target}; git status --short"

    def write(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_b", "bash", {"command": command}))
        return priced(anthropic.text("Done."))

    ran = crew.run(
        write,
        delegates(1),
        priced(anthropic.text("Wait.")),
        says("Done."),
        mode="auto",
        flags=("--sandbox", layer),
    )
    assert ran.code == 0, ran.err
    assert target.read_text() == SHARED
    assert (crew.workspace / "own.txt").read_text() == "mine\n"
    (log,) = session_log(crew.home).parent.glob("out/child-1.jsonl")
    (result,) = [
        json.loads(line)["fact"]["result"]
        for line in log.open()
        if json.loads(line)["fact"]["type"] == "call_finished"
    ]
    assert "?? own.txt" in result["content"][0]["text"]


def test_agent_that_only_reads_works_beside_the_session_without_a_worktree(crew: Crew) -> None:
    crew.write_role(ROLE.replace("isolation: worktree", "tools: read_file"))
    shutil.rmtree(crew.workspace / ".git")

    def look(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            return priced(anthropic.call("toolu_r", "read_file", {"path": "shared.txt"}))
        return priced(anthropic.text("It has 200 lines."))

    parent = iter([delegates(1), priced(anthropic.text("Wait.")), says("Done.")])

    def reply(request: Recorded) -> Reply:
        is_child = CHILD_INSTRUCTIONS in str(request.json["messages"])
        return look(request) if is_child else next(parent)

    with Provider([reply] * 20) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        options = ("--model", "opus", "--trust-project")
        ran = agentcli("run", "-C", crew.workspace, *options, "go", home=crew.home, env=env)
        assert "[Agent 1 (worker) ended: It has 200 lines.]" in str(provider.bodies[-1])
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    assert crew.trees() == [] and "worktree" not in crew.facts("agent_started")[0]


def test_agent_of_a_session_in_a_worktree_changes_that_worktree(crew: Crew) -> None:
    parent = (delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    ran = crew.run(change, *parent, flags=("-w", "fix"))
    assert ran.code == 0, ran.err
    assert "worktree fix: 2 files changed, kept" in ran.err
    assert (crew.workspace / "shared.txt").read_text() == SHARED
    merged = agentcli("worktree", "merge", "fix", "-C", crew.workspace, home=crew.home)
    assert merged.code == 0, merged.err
    assert "line 10 by agent 1\n" in (crew.workspace / "shared.txt").read_text()
    assert crew.trees() == []


def test_merge_of_a_patch_that_is_killed_is_offered_again_and_undone(crew: Crew) -> None:
    names = [f"f{number:03}.txt" for number in range(60)]
    for name in names:
        (crew.workspace / name).write_text(SHARED)
    git(crew.workspace, "add", ".")
    git(crew.workspace, "commit", "-q", "-m", "many")

    def change_all(request: Recorded) -> Reply:
        if count_replies(request) == 0:
            command = "for f in f*.txt; do sed -i 's/^line 7$/line seven/' $f; done"
            return priced(anthropic.call("toolu_b", "bash", {"command": command}))
        return priced(anthropic.text("Done."))

    reply = reply_as(change_all, delegates(1), priced(anthropic.text("Wait.")), says("Done."))
    with Provider([reply] * 100) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        options = ("--model", "opus", "--mode", "auto", "--sandbox", "off", "--trust-project")
        process = subprocess.Popen(
            [PROGRAM, "run", "-C", crew.workspace, *options, "go"],
            env=environment(crew.home, **env),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        first = crew.workspace / names[0]
        until(lambda: "seven" in first.read_text(), "the first file is merged", every_s=0.002)
        process.kill()
        process.wait()
    new = SHARED.replace("line 7\n", "line seven\n")
    assert {(crew.workspace / name).read_text() for name in names} <= {SHARED, new}
    assert crew.facts("patch_decided") == [] and len(crew.facts("checkpointed")) == 1
    ran = crew.run(change, says("I see."), flags=("--continue",))
    assert "the patch of agent 1 (worker) waits for your decision" in ran.err
    assert audit_log(session_log(crew.home)).status == "intact"
    undone = agentcli("undo", "-C", crew.workspace, home=crew.home)
    assert undone.code == 0, undone.err
    assert {(crew.workspace / name).read_text() for name in names} == {SHARED}


def test_rule_about_a_path_of_the_workspace_holds_for_the_copy_of_an_agent(
    home: Path, workspace: Path
) -> None:
    crew = Crew(home, workspace)

    def read(request: Recorded) -> Reply:
        if count_replies(request):
            return priced(anthropic.text("Read it."))
        return priced(anthropic.call("toolu_1", "read_file", {"path": "shared.txt"}))

    parent = (delegates(1), priced(anthropic.text("Done.")))
    crew.run(read, *parent, flags=("--deny", f"read({workspace}/shared.txt)"))
    assert "forbids it" in str(crew.bodies)
    assert "line 7" not in str(crew.bodies)
