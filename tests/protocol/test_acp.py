"""The SDK's own client drives the installed program."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.helpers import embedded_text_resource, image_block, resource_block, resource_link_block
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    SseMcpServer,
    ToolCallUpdate,
)

from tests.support.mcp_links import ASKING, NASTY
from tests.support.pictures import png
from tests.support.program import environment, read_facts, script, session_log, write_fork_command

EDIT = {"calls": [{"edit_file": {"path": "a.py", "old_text": "x = 1\n", "new_text": "x = 2\n"}}]}
NEVER = "never"
READ = {"calls": [{"read_file": {"path": "a.py"}}]}


@dataclass
class Editor:
    """Keeps what it is told, and answers every question alike."""

    answer: str | None = "allow"
    """None: the question is put away without an answer."""
    updates: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.changed.set()
        if self.answer == NEVER:
            await asyncio.Event().wait()
        if self.answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=self.answer)
        )

    def on_connect(self, conn: Any) -> None:
        """There is nothing to prepare."""

    async def until(self, is_there: Callable[[], object]) -> None:
        while not is_there():
            self.changed.clear()
            await self.changed.wait()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.of(kind))


@dataclass
class Desk:
    """An editor with agentcli at its other end, and a project open."""

    home: Path
    work: Path
    editor: Editor
    agent: ClientSideConnection

    async def new(self) -> str:
        return (await self.agent.new_session(cwd=str(self.work), mcp_servers=[])).session_id

    async def say(self, session: str, text: str = "go") -> str:
        answer = await self.agent.prompt(session_id=session, prompt=[text_block(text)])
        return answer.stop_reason


def drive(
    tmp_path: Path,
    replies: list[Any],
    play: Callable[[Desk], Awaitable[None]],
    *options: str,
    answer: str | None = "allow",
) -> Desk:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    (work / "a.py").write_text("x = 1\n")
    model = script(tmp_path / "script.json", replies)

    async def played() -> Desk:
        async with at_work(home, work, Editor(answer), "--model", model, *options) as desk:
            await play(desk)
        return desk

    return asyncio.run(played())


@asynccontextmanager
async def at_work(home: Path, work: Path, editor: Editor, *options: str) -> AsyncIterator[Desk]:
    async with spawn_agent_process(
        cast(Client, editor),
        *(write_fork_command(), "acp", *options),
        env=environment(home),
        cwd=home,
        use_unstable_protocol=True,
    ) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        yield Desk(home, work, editor, agent)


def test_prompt_is_streamed_and_ends(tmp_path: Path) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}

    async def play(desk: Desk) -> None:
        session = await desk.new()
        answer = await desk.agent.prompt(
            session_id=session,
            prompt=[
                text_block("Look at "),
                resource_link_block("a.py", f"file://{desk.work}/a.py"),
                resource_block(embedded_text_resource("file:///notes.txt", "a note")),
            ],
        )
        assert (answer.stop_reason, answer.usage and answer.usage.total_tokens) == ("end_turn", 10)

    desk = drive(tmp_path, [{"thinking": "Hm.", "text": "Hello.", "usage": usage}], play)
    assert desk.editor.text() == "Hello."
    assert desk.editor.text("agent_thought_chunk") == "Hm."
    facts = [json.loads(line) for line in session_log(desk.home).read_text().splitlines()]
    (started,) = [line["fact"] for line in facts if line["fact"]["type"] == "turn_started"]
    assert [block["text"] for block in started["message"]["content"]] == [
        f"Look at [a.py](file://{desk.work}/a.py)",
        "file:///notes.txt:\n\na note",
    ]
    assert facts[-1]["fact"]["type"] == "session_ended"


def test_read_shows_its_place_and_text(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        assert await desk.say(await desk.new()) == "end_turn"

    editor = drive(tmp_path, [READ, "Done."], play).editor
    (started,) = editor.of("tool_call")
    place = str(tmp_path / "work" / "a.py")
    assert (started["kind"], started["status"], started["title"], started["locations"]) == (
        "read",
        "pending",
        "read_file: a.py",
        [{"path": place}],
    )
    *_, finished = editor.of("tool_call_update")
    assert finished["status"] == "completed"
    assert finished["locations"] == [{"path": place, "line": 1}]
    assert "x = 1" in finished["content"][0]["content"]["text"]
    assert editor.asked == []


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ("allow", "completed", "x = 2\n"),
        ("always", "completed", "x = 2\n"),
        ("deny", "failed", "x = 1\n"),
        (None, "failed", "x = 1\n"),
    ],
)
def test_edit_is_asked_about_with_its_diff(
    answer: str | None, status: str, text: str, tmp_path: Path
) -> None:
    async def play(desk: Desk) -> None:
        assert await desk.say(await desk.new()) == "end_turn"

    desk = drive(tmp_path, [READ, EDIT, "Done."], play, answer=answer)
    ((call, options),) = desk.editor.asked
    diff = {
        "type": "diff",
        "path": str(desk.work / "a.py"),
        "oldText": "x = 1\n",
        "newText": "x = 2\n",
    }
    assert call.content is not None
    assert [
        part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in call.content
    ] == [diff]
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
    *_, finished = desk.editor.of("tool_call_update")
    assert (finished["status"], (desk.work / "a.py").read_text()) == (status, text)
    if status == "completed":
        assert finished["content"] == [diff]


def test_question_of_a_child_says_which_one_asks(tmp_path: Path) -> None:
    roles = tmp_path / "home/.config/agentcli/agents"
    roles.mkdir(parents=True)
    (roles / "builder.md").write_text("---\ndescription: Builds.\ntools: bash\n---\n")

    async def play(desk: Desk) -> None:
        await desk.say(await desk.new())

    delegate = {"calls": [{"delegate": {"task": "build it", "role": "builder"}}]}
    touch = {"calls": [{"bash": {"command": "touch made"}}]}
    desk = drive(tmp_path, [delegate, touch, "Built.", "Done."], play)
    parents, childs = (asked for asked, _ in desk.editor.asked)
    assert (parents.title, childs.title) == (
        'delegate: task="build it" role=builder',
        "child agent builder: bash: touch made",
    )
    content = childs.model_dump(mode="json", exclude_none=True)["content"]
    told = [one["content"]["text"] for one in content]
    assert any("child agent builder, task: build it" in text for text in told)
    assert any("sandboxed, no network" in text for text in told)
    assert (desk.work / "made").exists()


def test_always_is_a_rule_for_the_next_session(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        assert await desk.say(await desk.new()) == "end_turn"

    assert len(drive(tmp_path, [READ, EDIT, "Done."], play, answer="always").editor.asked) == 1
    assert drive(tmp_path, [READ, EDIT, "Done."], play, answer="deny").editor.asked == []


def test_cancel_ends_the_command_and_the_prompt(tmp_path: Path) -> None:
    command = {"calls": [{"bash": {"command": "echo begun; touch began; sleep 600"}}]}

    async def play(desk: Desk) -> None:
        session = await desk.new()
        prompted = asyncio.ensure_future(desk.say(session))
        await desk.editor.until(lambda: "begun" in json.dumps(desk.editor.of("tool_call_update")))
        await desk.agent.cancel(session_id=session)
        assert await prompted == "cancelled"
        assert desk.editor.of("tool_call_update")[-1]["status"] == "failed"
        assert await desk.say(session) == "end_turn"

    desk = drive(tmp_path, [command, "After it."], play, "--mode", "auto")
    assert desk.editor.text() == "After it."


def test_cancel_while_a_question_is_open_ends_the_prompt(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        session = await desk.new()
        prompted = asyncio.ensure_future(desk.say(session))
        await desk.editor.until(lambda: desk.editor.asked)
        await desk.agent.cancel(session_id=session)
        assert await prompted == "cancelled"

    desk = drive(tmp_path, [READ, EDIT], play, answer=NEVER)
    assert (desk.work / "a.py").read_text() == "x = 1\n"


def test_server_of_the_editor_is_used_like_the_persons_own(tmp_path: Path) -> None:
    server = McpServerStdio(
        name="My server!", command=sys.executable, args=[str(NASTY), "plain"], env=[]
    )

    async def play(desk: Desk) -> None:
        opened = await desk.agent.new_session(cwd=str(desk.work), mcp_servers=[server])
        assert await desk.say(opened.session_id) == "end_turn"
        refused = SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1", headers=[])
        with pytest.raises(RequestError, match="old speaks neither stdio nor HTTP"):
            await desk.agent.new_session(cwd=str(desk.work), mcp_servers=[refused])

    call = {"calls": [{"My-server__echo": {"text": "from the server"}}]}
    editor = drive(tmp_path, [call, "Done."], play).editor
    ((asked, _),) = editor.asked
    assert asked.title == 'My-server__echo: text="from the server"'
    *_, finished = editor.of("tool_call_update")
    assert "from the server" in finished["content"][0]["content"]["text"]


def test_resources_and_prompts_of_servers_are_sent_along(tmp_path: Path) -> None:
    server = McpServerStdio(name="asking", command=sys.executable, args=[str(ASKING)], env=[])

    async def play(desk: Desk) -> None:
        opened = await desk.agent.new_session(cwd=str(desk.work), mcp_servers=[server])
        await desk.say(opened.session_id, "what about @asking:note://today")
        await desk.say(opened.session_id, "/asking:greet Ada")
        with pytest.raises(RequestError) as refused:
            await desk.say(opened.session_id, "/asking:sing")
        assert refused.value.data == {
            "details": "the MCP server asking has no prompt sing",
            "hint": "its prompts: greet",
        }

    home = drive(tmp_path, ["One.", "Two."], play).home
    facts = read_facts(session_log(home))
    sent = [fact["message"]["content"] for fact in facts if fact["type"] == "turn_started"]
    (_, resource), (_, prompt) = sent
    assert "[resource note://today]\nBuy milk." in resource["text"]
    assert "Greet Ada" in prompt["text"]


def test_mode_can_be_chosen(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        opened = await desk.agent.new_session(cwd=str(desk.work), mcp_servers=[])
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "ask"
        assert [mode.id for mode in opened.modes.available_modes] == [
            "plan",
            "ask",
            "auto-edit",
            "auto",
        ]
        await desk.agent.set_session_mode(session_id=opened.session_id, mode_id="auto-edit")
        assert await desk.say(opened.session_id) == "end_turn"
        with pytest.raises(RequestError) as refused:
            await desk.agent.set_session_mode(session_id=opened.session_id, mode_id="fast")
        assert refused.value.data == {
            "details": "no mode fast; the modes are plan, ask, auto-edit, auto"
        }

    desk = drive(tmp_path, [READ, EDIT, "Done."], play)
    assert (desk.editor.asked, (desk.work / "a.py").read_text()) == ([], "x = 2\n")
    assert desk.editor.of("current_mode_update") == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "auto-edit"}
    ]


def test_session_is_listed_and_loaded_with_all_that_was_said(tmp_path: Path) -> None:
    ids: list[str] = []

    async def first(desk: Desk) -> None:
        ids.append(await desk.new())
        await desk.say(ids[0], "Read it.")

    async def second(desk: Desk) -> None:
        listed = await desk.agent.list_sessions(cwd=str(desk.work))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(ids[0], "Read it.")]
        await desk.agent.load_session(cwd=str(desk.work), session_id=ids[0], mcp_servers=[])
        assert desk.editor.text("user_message_chunk") == "Read it."
        assert desk.editor.text() == "It says 1."
        assert [call["kind"] for call in desk.editor.of("tool_call")] == ["read"]
        assert await desk.say(ids[0], "And now?") == "end_turn"

    drive(tmp_path, [READ, "It says 1."], first)
    assert drive(tmp_path, ["Again."], second).editor.text() == "It says 1.Again."


def test_closed_session_can_be_gone_on_with_by_anybody(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        session = await desk.new()
        await desk.say(session)
        await desk.agent.close_session(session_id=session)
        with pytest.raises(RequestError):
            await desk.say(session)
        model = script(tmp_path / "other.json", ["Elsewhere."])
        words = (write_fork_command(), "run", "--resume", session, "--model", model, "x")
        ran = await asyncio.create_subprocess_exec(
            *words, env=environment(desk.home), cwd=desk.work, stdout=subprocess.PIPE
        )
        assert (await ran.communicate())[0] == b"Elsewhere.\n"
        await desk.agent.resume_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
        assert await desk.say(session) == "end_turn"

    desk = drive(tmp_path, ["Once."], play)
    assert desk.editor.text() == "Once.Once."


def test_failures_are_errors_of_the_request_and_the_process_goes_on(tmp_path: Path) -> None:
    error = {"error": {"kind": "credentials", "message": "the key was rejected", "hint": "buy one"}}

    async def play(desk: Desk) -> None:
        for refused in (
            desk.agent.new_session(cwd=str(tmp_path / "nowhere"), mcp_servers=[]),
            desk.agent.load_session(cwd=str(desk.work), session_id="none", mcp_servers=[]),
            desk.agent.prompt(session_id="none", prompt=[text_block("x")]),
        ):
            with pytest.raises(RequestError):
                await refused
        session = await desk.new()
        for bad in (image_block("aGk=", "image/png"), text_block(" ")):
            with pytest.raises(RequestError):
                await desk.agent.prompt(session_id=session, prompt=[bad])
        with pytest.raises(RequestError) as failed:
            await desk.say(session)
        assert failed.value.data == {"details": "the key was rejected", "hint": "buy one"}
        assert await desk.say(session) == "end_turn"

    assert drive(tmp_path, [error, "Back."], play).editor.text() == "Back."


def test_image_of_a_prompt_goes_to_the_model(tmp_path: Path) -> None:
    data = base64.b64encode(png(30, 20)).decode()

    async def play(desk: Desk) -> None:
        session = await desk.new()
        words, image = text_block("what is this?"), image_block(data, "image/png")
        await desk.agent.prompt(session_id=session, prompt=[words, image])

    drive(tmp_path, ["A square."], play)
    (log,) = tmp_path.rglob("log.jsonl")
    (asked,) = [line for line in log.read_text().splitlines() if "turn_started" in line]
    assert "[image of the prompt · 30x20]" in asked
    assert data in asked


def test_second_prompt_waits_for_nobody(tmp_path: Path) -> None:
    command = {"calls": [{"bash": {"command": "sleep 600"}}]}

    async def play(desk: Desk) -> None:
        session = await desk.new()
        prompted = asyncio.ensure_future(desk.say(session))
        await desk.editor.until(lambda: desk.editor.of("tool_call_update"))
        with pytest.raises(RequestError, match="Invalid request"):
            await desk.say(session)
        await desk.agent.cancel(session_id=session)
        assert await prompted == "cancelled"

    drive(tmp_path, [command, "x"], play, "--mode", "auto")


def started(tmp_path: Path, *options: str, **streams: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [write_fork_command(), "acp", *options], cwd=tmp_path, env=environment(tmp_path), **streams
    )


def test_editor_that_leaves_or_terminates_leaves_nothing_running(tmp_path: Path) -> None:
    for end in ("leave", "terminate"):
        home = tmp_path / end
        home.mkdir()
        model = script(home / "s.json", [{"calls": [{"bash": {"command": "echo $$; sleep 600"}}]}])
        agent = started(
            home,
            *("--model", model, "--mode", "auto", "--sandbox", "off"),  # its pids are ours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert agent.stdin is not None and agent.stdout is not None
        blocks = [{"type": "text", "text": "go"}]
        say(agent, 1, "session/new", cwd=str(home), mcpServers=[])
        session = json.loads(agent.stdout.readline())["result"]["sessionId"]
        say(agent, 2, "session/prompt", sessionId=session, prompt=blocks)
        text = ""
        while not (text.startswith("```") and text.split()[1].isdigit()):
            update = json.loads(agent.stdout.readline())["params"]["update"]
            content = update.get("content") or [{}]
            text = content[0].get("content", {}).get("text", "") if content else ""
        pid = int(text.split()[1])
        if end == "leave":
            agent.stdin.close()
        else:
            agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=30) == 0
        agent.stdout.close()
        agent.stdin.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        last = json.loads(session_log(home).read_text().splitlines()[-1])
        assert last["fact"]["type"] == "session_ended"


def say(agent: "subprocess.Popen[bytes]", number: int, method: str, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    assert agent.stdin is not None
    agent.stdin.write(json.dumps(message).encode() + b"\n")
    agent.stdin.flush()


def test_stdout_holds_the_protocol_alone(tmp_path: Path) -> None:
    tools = tmp_path / ".config" / "agentcli" / "tools"
    tools.mkdir(parents=True)
    (tools / "loud.py").write_text("import os\nos.system('echo loud')\nTOOLS = []\n")
    agent = started(
        tmp_path,
        *("--model", script(tmp_path / "s.json", ["Hi."])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert agent.stdin is not None
    say(agent, 1, "session/new", cwd=str(tmp_path), mcpServers=[])
    assert agent.stdout is not None
    answer = json.loads(agent.stdout.readline())
    assert answer["result"]["sessionId"]
    out, err = agent.communicate(timeout=30)
    assert (out, agent.returncode) == (b"", 0)
    assert b"loud" in err


def test_without_an_editor_it_says_so(tmp_path: Path) -> None:
    agent = started(tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=-1)
    _, err = agent.communicate(timeout=30)
    assert agent.returncode == 2
    assert err.startswith(b"error: agentcli acp must be started by an editor\n")


def sent_at_once(tmp_path: Path, *messages: tuple[str, dict[str, Any]]) -> dict[int, Any]:
    """What is answered to messages of one session that come in a single write, by number."""
    agent = started(
        tmp_path,
        *("--model", script(tmp_path / "s.json", ["Hi."])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with agent:
        assert agent.stdin is not None and agent.stdout is not None
        say(agent, 1, "session/new", cwd=str(tmp_path), mcpServers=[])
        session = json.loads(agent.stdout.readline())["result"]["sessionId"]
        lines = [
            {
                "jsonrpc": "2.0",
                "method": method,
                "params": {"sessionId": session, **params},
                **({} if method == "session/cancel" else {"id": number}),
            }
            for number, (method, params) in enumerate(messages, start=2)
        ]
        expected = {line["id"] for line in lines if "id" in line}
        agent.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        agent.stdin.flush()
        answers: dict[int, Any] = {}
        while answers.keys() != expected:
            answer = json.loads(agent.stdout.readline())
            if "id" in answer:
                answers[answer["id"]] = answer
        agent.stdin.close()
    return answers


PROMPT = ("session/prompt", {"prompt": [{"type": "text", "text": "go"}]})


def test_second_of_two_prompts_that_come_together_is_refused(tmp_path: Path) -> None:
    answers = sent_at_once(tmp_path, PROMPT, PROMPT)
    assert answers[2]["result"]["stopReason"] == "end_turn"
    assert answers[3]["error"]["code"] == -32600
    assert answers[3]["error"]["data"] == {"details": "the previous prompt is still running"}
    facts = [json.loads(line)["fact"]["type"] for line in session_log(tmp_path).open()]
    assert facts.count("turn_started") == 1


def test_cancel_that_comes_with_its_prompt_cancels_it(tmp_path: Path) -> None:
    answers = sent_at_once(tmp_path, PROMPT, ("session/cancel", {}))
    assert answers[2]["result"]["stopReason"] == "cancelled"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("choice-2", "The user chose: SQLite"),
        ("none", "The user gave no answer"),
        ("something else", "The user gave no answer"),
        (None, "The user gave no answer"),
    ],
)
def test_question_of_the_model_is_a_choice_of_buttons(
    answer: str | None, told: str, tmp_path: Path
) -> None:
    async def play(desk: Desk) -> None:
        assert await desk.say(await desk.new()) == "end_turn"

    asked = {"question": "Which database?", "choices": ["Postgres", "SQLite"]}
    desk = drive(tmp_path, [{"calls": [{"ask_user": asked}]}, "Done."], play, answer=answer)
    ((call, options),) = desk.editor.asked
    assert call.title == "Which database?"
    assert [option.name for option in options] == ["Postgres", "SQLite", "No answer"]
    *_, finished = desk.editor.of("tool_call_update")
    assert told in str(finished["content"])
