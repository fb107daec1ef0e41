"""Commands, options, plans and forks of a session, as the SDK's own client gets them."""

from pathlib import Path

import pytest
from acp import RequestError

from tests.protocol.test_acp import READ, Desk, drive

PLAN = "# Plan\n\n1. Read a.py\n2. Change x\n   - carefully\n3. Run the tests\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_commands_and_skills_are_listed_and_called_by_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work / ".git/HEAD", "ref: refs/heads/main\n")
    write(work / ".claude/commands/git/fix.md", "---\nargument-hint: [issue]\n---\nFix #$1 now.")
    write(work / ".agents/skills/ship/SKILL.md", "---\ndescription: Ships: all\n---\nShip it.")

    async def play(desk: Desk) -> None:
        session = await desk.new()
        await desk.editor.until(lambda: desk.editor.of("available_commands_update"))
        (update,) = desk.editor.of("available_commands_update")
        assert [
            (one["name"], one["description"], one["input"]["hint"])
            for one in update["availableCommands"]
        ] == [
            ("git:fix", "project: Fix #$1 now.", "[issue]"),
            ("ship", "skill: Ships: all", "[TEXT]"),
        ]
        assert await desk.say(session, "/git:fix 12") == "end_turn"
        with pytest.raises(RequestError, match="/git:fix needs 1 arguments"):
            await desk.say(session, "/git:fix")
        assert await desk.say(session, "/no such") == "end_turn"

    desk = drive(tmp_path, ["Fixed.", "What?"], play, "--trust-project")
    (log,) = desk.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    assert "Fix #12 now." in log.read_text()


def test_model_and_effort_are_options(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        opened = await desk.agent.new_session(cwd=str(desk.work), mcp_servers=[])
        options = {one.id: one for one in opened.config_options or []}
        assert options["model"].category == "model"
        assert options["effort"].current_value == "default"
        changed = await desk.agent.set_config_option(
            config_id="effort", session_id=opened.session_id, value="high"
        )
        assert changed is not None
        assert [one.current_value for one in changed.config_options][1] == "high"
        await desk.editor.until(lambda: desk.editor.of("config_option_update"))
        for config_id, value in (("effort", "very"), ("nothing", "x"), ("effort", True)):
            with pytest.raises(RequestError, match="no option"):
                await desk.agent.set_config_option(
                    config_id=config_id, session_id=opened.session_id, value=value
                )
        with pytest.raises(RequestError):
            await desk.agent.set_config_option(
                config_id="model", session_id=opened.session_id, value="nobody/nothing"
            )

    drive(tmp_path, ["Hi."], play)


def test_plan_and_usage_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "home/.config/agentcli/settings.toml", "window = 100000\n")

    async def play(desk: Desk) -> None:
        session = await desk.new()
        await desk.say(session)
        (usage,) = desk.editor.of("usage_update")
        assert (usage["size"], usage["used"]) == (100_000, 100)
        await desk.agent.set_session_mode(session_id=session, mode_id="ask")
        await desk.say(session)
        await desk.agent.close_session(session_id=session)
        await desk.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])

    reply = {"text": PLAN, "usage": {"input_tokens": 70, "output_tokens": 30}}
    done = [{"text": "[x] 1\n", **READ}, "```\n[x] 3\n```\n**[x]** no\n- [x] Step 2: changed"]
    desk = drive(tmp_path, [reply, *done], play, "--mode", "plan")
    plans = desk.editor.of("plan")
    assert {tuple(one["content"] for one in plan["entries"]) for plan in plans} == {
        ("Read a.py", "Change x", "Run the tests")
    }
    assert [[one["status"] for one in plan["entries"]] for plan in plans] == [
        ["pending", "pending", "pending"],
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "in_progress"],  # again after it was loaded
    ]


def test_fork_is_a_session_of_its_own_with_the_same_beginning(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        session = await desk.new()
        await desk.say(session, "the first prompt")
        forked = await desk.agent.fork_session(session_id=session, cwd=str(desk.work))
        assert forked.session_id != session
        await desk.say(forked.session_id, "the second prompt")
        with pytest.raises(RequestError, match="no session"):
            await desk.agent.fork_session(session_id="none", cwd=str(desk.work))

    desk = drive(tmp_path, ["One.", "Two."], play)
    logs = sorted(desk.home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    texts = [log.read_text() for log in logs]
    assert ["the first prompt" in text for text in texts] == [True, True]
    assert sorted("the second prompt" in text for text in texts) == [False, True]
