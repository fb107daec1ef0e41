import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CreateMessageResult, TextContent

from agentcli.features.mcp.faults import ServerFault
from agentcli.features.mcp.host import SampleAnswer, SampleRequest
from agentcli.types.errors import ToolError
from agentcli.types.forms import FormAnswer, ServerForm
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import ErrorKind, Output, Structured
from tests.support.mcp_links import Nasty
from tests.support.processes import running, until


def answered(mode: str, directory: Path, **arguments: Any) -> Output:
    server = Nasty(mode, directory)

    async def scenario(server: Nasty) -> Output:
        return await server.call(**arguments)

    return asyncio.run(server.use(scenario))


def failure(mode: str, directory: Path, **entry: Any) -> ToolError:
    async def scenario(server: Nasty) -> Output:
        return await server.call(text="x")

    with pytest.raises(ToolError) as raised:
        asyncio.run(Nasty(mode, directory, **entry).use(scenario))
    return raised.value


def said(output: Output) -> str:
    return "\n".join(block.text for block in output.content if isinstance(block, Text))


def listed(mode: str, directory: Path, *more: str, **entry: Any) -> list[str]:
    async def scenario(server: Nasty) -> list[str]:
        return list(await server.link.list_tools())

    return asyncio.run(Nasty(mode, directory, *more, **entry).use(scenario))


def fault(mode: str, directory: Path, **entry: Any) -> ServerFault:
    with pytest.raises(ServerFault) as raised:
        listed(mode, directory, **entry)
    return raised.value


def test_server_that_behaves_is_called(tmp_path: Path) -> None:
    assert answered("plain", tmp_path, text="hé") == Output.of("hé")


def test_server_that_does_not_exist_is_named(tmp_path: Path) -> None:
    server = Nasty("plain", tmp_path)
    server.entry = type(server.entry)(name="nasty", command="/no/such/program")

    async def scenario(server: Nasty) -> None:
        await server.link.list_tools()

    with pytest.raises(ServerFault, match=r"nasty cannot be started: .*: /no/such/program"):
        asyncio.run(server.use(scenario))


def test_slow_start_ends_at_its_limit(tmp_path: Path) -> None:
    late = fault("slow_start", tmp_path, start_timeout_s=0.3)
    assert (str(late), late.timed_out) == (
        "The MCP server nasty was not ready within 0.3 s.",
        True,
    )


def test_server_that_hangs_at_its_start_ends_in_the_background(tmp_path: Path) -> None:
    server = Nasty("slow_start", tmp_path, start_timeout_s=0.3)

    async def scenario(server: Nasty) -> tuple[bool, bool]:
        with pytest.raises(ServerFault):
            await server.link.list_tools()
        was_running = bool(running(str(tmp_path / "here")))
        await server.link.close()
        return was_running, bool(running(str(tmp_path / "here")))

    server.entry = replace(server.entry, args=(*server.entry.args, str(tmp_path / "here")))
    assert asyncio.run(server.use(scenario)) == (True, False)


def test_server_that_dies_at_once_says_where_its_words_are(tmp_path: Path) -> None:
    assert str(fault("dies_at_once", tmp_path)) == (
        "The MCP server nasty ended the connection (exit code 7); it said 'no licence', all of it "
        f"is in {tmp_path}/nasty.log."
    )
    assert (tmp_path / "nasty.log").read_text() == "no licence\n"


def test_server_that_needs_a_terminal_has_none(tmp_path: Path) -> None:
    assert "nasty ended the connection (exit code 1)" in str(fault("needs_terminal", tmp_path))
    assert "/dev/tty" in (tmp_path / "nasty.log").read_text()


def test_line_without_end_costs_the_connection_only(tmp_path: Path) -> None:
    assert "nasty ended the connection" in str(fault("endless_line", tmp_path))


def test_noise_on_stdout_goes_to_the_log(tmp_path: Path) -> None:
    assert listed("noise", tmp_path) == ["echo", "other"]
    log = (tmp_path / "nasty.log").read_bytes().decode("utf-8", "replace")
    assert "[on stdout, and no message] Password:" in log
    assert "warming up" in log


def test_crash_in_a_call_is_an_error_and_the_server_is_started_again_once(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> list[str]:
        tool = await server.tool("echo")
        return [said(await server.call("echo", text="x")) for _ in range(2)] + [
            said(await tool.run(tool.parse({"text": "x"}), server.context))
        ]

    first, second, third = asyncio.run(Nasty("crash", tmp_path).use(scenario))
    assert first.startswith("The MCP server nasty ended the connection (exit code 3)")
    assert second == first
    assert "was started 2 times in this session and ended each time" in third


def test_fault_quotes_nothing_that_was_said_in_an_earlier_call(tmp_path: Path) -> None:
    log = tmp_path / "nasty.log"

    async def scenario(server: Nasty) -> str:
        assert said(await server.call(text="go on")) == "said"
        await until(lambda: log.read_text() != "")
        with pytest.raises(ToolError) as raised:
            await server.call(text="end")
        return str(raised.value)

    ended = asyncio.run(Nasty("ends_in_silence", tmp_path).use(scenario))
    assert ended == "The MCP server nasty ended the connection (exit code 3)."


def test_server_that_left_between_calls_is_started_again(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> list[Output]:
        first = await server.call(text="one")
        await until(server.local.is_lost)
        return [first, await server.call(text="two")]

    outputs = asyncio.run(Nasty("dies_idle", tmp_path).use(scenario))
    assert outputs == [Output.of("one"), Output.of("two")]


def test_call_without_an_answer_times_out(tmp_path: Path) -> None:
    late = failure("silent", tmp_path, call_timeout_s=0.3)
    assert (str(late), late.kind) == (
        "The MCP server nasty took longer than 0.3 s to answer echo.",
        ErrorKind.TIMEOUT,
    )


def test_cancelled_call_leaves_the_server_usable(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> list[str]:
        call = asyncio.create_task(server.call(text="x"))
        await until(lambda: bool(server.link.running))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return list(await server.link.list_tools())

    assert asyncio.run(Nasty("silent", tmp_path).use(scenario)) == ["echo", "other"]


def test_result_of_20_mb_is_bounded_and_kept(tmp_path: Path) -> None:
    output = answered("huge", tmp_path, text="x")
    (kept,) = tmp_path.glob("mcp-*.txt")
    assert output.truncated
    assert len(said(output)) < 40_000
    assert str(kept) in said(output)
    assert kept.stat().st_size == 20_000_000


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    assert answered("bytes", tmp_path, text="x") == Output.of("a\ufffd\ufffdb")


def test_half_of_a_character_is_replaced(tmp_path: Path) -> None:
    output = answered("half_character", tmp_path, text="x")
    assert said(output).startswith("cut \ufffd")
    assert isinstance(output.details, Structured)
    assert output.details.data == {"\ufffd": "\ufffd"}


def test_error_of_the_tool_is_the_servers_own_answer(tmp_path: Path) -> None:
    assert answered("is_error", tmp_path, text="x") == Output.of(
        "the disk is full", error=ErrorKind.FAILED
    )


def test_answer_that_is_no_result_is_named_as_such(tmp_path: Path) -> None:
    assert str(failure("not_a_result", tmp_path)) == (
        "The MCP server nasty sent an invalid answer: content: Input should be a valid list"
    )


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("text_result", "its result is not an object"),
        ("null_result", "its result is not an object"),
        ("list_result", "its result is not an object"),
        ("error_without_code", "its error has no code or no message"),
    ],
)
def test_answer_that_is_no_message_is_not_waited_for(
    mode: str, problem: str, tmp_path: Path
) -> None:
    wrong = failure(mode, tmp_path)
    assert (str(wrong), wrong.kind) == (
        f"The MCP server nasty sent an invalid answer: {problem}",
        ErrorKind.FAILED,
    )


def test_error_of_the_server_is_told_as_its_own_words(tmp_path: Path) -> None:
    assert answered("refusing", tmp_path, text="x") == Output.of(
        "The MCP server nasty answered with an error: no thanks", error=ErrorKind.FAILED
    )


def test_structured_content_alone_is_shown_as_json(tmp_path: Path) -> None:
    shown = Output.of('{\n "n": 3\n}', details=Structured(data={"n": 3}))
    assert answered("structured", tmp_path) == shown


@pytest.mark.parametrize(
    ("text", "says_more"),
    [
        ("3 of a", False),
        ('{"n": 3, "of": ["a", null]}', False),
        ("Found a few.", True),
        ('{"n": 3, "of": []}', True),
    ],
)
def test_structured_content_is_kept_and_shown_where_it_says_more(
    text: str, says_more: bool, tmp_path: Path
) -> None:
    output = answered("structured_beside", tmp_path, text=text)
    data: Json = {"n": 3, "of": ["a", None]}
    assert output.details == Structured(data=data)
    assert said(output) == text + (f"\n{json.dumps(data, indent=1)}" if says_more else "")


def test_numbers_that_json_does_not_have_become_names(tmp_path: Path) -> None:
    output = answered("beyond_json", tmp_path, text="x")
    data: Json = {"n": ["Infinity", "-Infinity", "NaN", 1.5]}
    assert output == Output.of(json.dumps(data, indent=1), details=Structured(data=data))


def test_structured_content_against_its_own_schema_is_an_error(tmp_path: Path) -> None:
    output = answered("wrong_structure", tmp_path)
    assert output.error is ErrorKind.FAILED
    assert "nasty sent an invalid answer: Invalid structured content" in said(output)


def test_schema_whose_check_has_no_end_is_not_applied(tmp_path: Path) -> None:
    output = answered("slow_schema", tmp_path, text="x")
    assert output.details == Structured(data={"n": "a" * 45 + "!"})


def test_media_becomes_images_and_notes(tmp_path: Path) -> None:
    output = answered("media", tmp_path, text="x")
    (kept,) = tmp_path.glob("mcp-*.bin")
    images = [block.media_type for block in output.content if isinstance(block, Image)]
    assert images == ["image/png"]
    assert said(output) == (
        "[an image that is not valid base64]\n"
        f"[audio of type audio/wav, 4 bytes: {kept}]\n"
        "[resource a: file:///a.txt text/plain]\n"
        "[resource file:///b.txt]\ninside"
    )


def test_text_and_images_stay_in_their_order(tmp_path: Path) -> None:
    content = answered("mixed", tmp_path, text="x").content
    shown = [block.text if isinstance(block, Text) else block.media_type for block in content]
    assert shown == ["one", "image/png", "two", "three", "image/png"]


def test_progress_is_shown(tmp_path: Path) -> None:
    server = Nasty("progress", tmp_path)

    async def scenario(server: Nasty) -> Output:
        return await server.call(text="x")

    assert asyncio.run(server.use(scenario)) == Output.of("done")
    assert server.shown == ["1 of 2: half\n"]


def test_question_is_declined_and_told(tmp_path: Path) -> None:
    server = Nasty("asks", tmp_path)

    async def scenario(server: Nasty) -> Output:
        return await server.call(text="x")

    output = asyncio.run(server.use(scenario))
    assert said(output) == '{"action": "decline"}'
    assert server.asked == [ServerForm(server="nasty", kind="form", message="Your password?")]


def test_question_that_belongs_to_nothing_is_declined_unseen(tmp_path: Path) -> None:
    server = Nasty("asks_unasked", tmp_path)

    async def scenario(server: Nasty) -> list[str]:
        return list(await server.link.list_tools())

    assert asyncio.run(server.use(scenario)) == ["echo", "other"]
    assert server.asked == []


def test_older_server_gets_the_models_answer(tmp_path: Path) -> None:
    async def sample(params: SampleRequest) -> SampleAnswer:
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="1 2 3"), model="m"
        )

    async def scenario(server: Nasty) -> Output:
        return await server.call(text="x")

    output = asyncio.run(Nasty("samples", tmp_path, sample=sample).use(scenario))
    assert '"text": "1 2 3"' in said(output)


def test_older_server_that_may_not_ask_the_model_is_refused(tmp_path: Path) -> None:
    assert '"error"' in said(answered("samples", tmp_path, text="x"))


class Thinking(Nasty):
    """With a person who takes their time."""

    was_dismissed = False

    async def fill_in(self, form: ServerForm) -> FormAnswer:
        self.asked.append(form)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.was_dismissed = True
            raise
        return self.answer


def test_question_goes_with_the_call_that_it_was_for(tmp_path: Path) -> None:
    server = Thinking("asks_and_leaves", tmp_path)

    async def scenario(_: Nasty) -> list[str]:
        call = asyncio.create_task(server.call(text="x"))
        await until(lambda: bool(server.asked))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.was_dismissed)
        return list(await server.link.list_tools())

    assert asyncio.run(server.use(scenario)) == ["echo", "other"]


def test_root_is_the_workspace(tmp_path: Path) -> None:
    assert said(answered("roots", tmp_path, text="x")).rstrip("/") == tmp_path.as_uri()


def test_tool_that_changes_in_mid_session_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> str:
        tool = await server.tool("echo")
        assert said(await tool.run(tool.parse({}), server.context)) == "said"
        while True:
            try:
                await tool.run(tool.parse({}), server.context)
            except ToolError as error:
                assert error.kind is ErrorKind.NOT_RUN
                return str(error)

    refused = asyncio.run(Nasty("changing", tmp_path, str(tmp_path / "changed")).use(scenario))
    assert refused == (
        "The MCP server nasty has changed its tool echo since it was approved, so it was not run. "
        "It can be used again after the user runs: agentcli mcp approve nasty"
    )


def test_missing_arguments_never_reach_the_server(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> None:
        (await server.tool("echo")).parse({})

    with pytest.raises(ToolError, match=r"Invalid input: text missing\."):
        asyncio.run(Nasty("plain", tmp_path).use(scenario))


def test_arguments_that_are_no_object_are_explained(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> None:
        (await server.tool("echo")).parse('{"text": 1e400}')

    message = r"the arguments are not valid JSON \(the number 1e400 is too large\)"
    with pytest.raises(ToolError, match=message):
        asyncio.run(Nasty("plain", tmp_path).use(scenario))
