import json
import re
from pathlib import Path
from typing import Any

from agentcli.agent.compaction import load_instruction
from agentcli.ui.render.wording import format_tokens
from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli, script
from tests.support.provider import Provider, Recorded, Reply, sse, stream
from tests.support.repl import live, says
from tests.support.strict_anthropic import StrictAnthropic

STEPS = 400
WINDOW = 32_000
RULE = "Never touch the vendored directory."
PROMPT = "Read every part of the notes and tell me the last word."


def told(request: Recorded) -> str:
    return json.dumps(request.json["messages"], ensure_ascii=False)


class Shortening(StrictAnthropic):
    """All rules but one: a conversation that was shortened does not begin as it did before."""

    def _check_prefix(self, body: Any) -> None:
        return


class Reader:
    """A model that reads on and on, and writes a summary when it is asked for one."""

    def __init__(self) -> None:
        self.steps = 0
        self.summaries = 0

    def __call__(self, request: Recorded) -> Reply:
        if json.dumps(load_instruction(), ensure_ascii=False)[1:-1] in told(request):
            self.summaries += 1
            return self._reply(request, anthropic.text(f"Summary {self.summaries}: read on."))
        self.steps += 1
        if self.steps > STEPS:
            return self._reply(request, anthropic.text("The last word is end."))
        arguments = {"path": "notes.txt", "offset": 1 + self.steps * 20, "limit": 60}
        call = anthropic.call(f"toolu_{self.steps}", "read_file", arguments)
        return self._reply(request, call, stop_reason="tool_use")

    def _reply(
        self, request: Recorded, block: anthropic.Deltas, *, stop_reason: str = "end_turn"
    ) -> Reply:
        usage = {"input_tokens": len(request.body) // 4, "output_tokens": 1}
        return stream(sse(anthropic.events([block], stop_reason=stop_reason, usage=usage)))


def test_a_session_of_400_steps_stays_in_its_window(tmp_path: Path) -> None:
    lines = [f"line {number} of the notes, as long as the others" for number in range(9_000)]
    (tmp_path / "notes.txt").write_text("\n".join(lines))
    (tmp_path / "AGENTS.md").write_text(RULE)
    model = Reader()
    with Provider([model] * 1_000, check=Shortening()) as provider:
        ran = agentcli(
            *("run", "--model", "anthropic/claude-opus-5-5", "--max-turns", "1000", PROMPT),
            home=tmp_path,
            env={
                "ANTHROPIC_API_KEY": "sk-test-0123456789",
                "ANTHROPIC_BASE_URL": provider.base_url,
                "AGENTCLI_WINDOW": str(WINDOW),
            },
        )
        assert (ran.code, ran.out) == (0, "The last word is end.\n"), ran.err
        assert provider.complaints == []
    assert model.summaries >= 2
    sizes = [len(request.body) // 4 for request in provider.requests]
    assert max(sizes) < WINDOW
    assert max(sizes[300:]) < 1.2 * max(sizes[:150])
    for request in provider.requests:
        assert told(request).count(RULE) == told(request).count(PROMPT) == 1


def test_person_shortens_a_conversation_and_has_all_of_it_back(tmp_path: Path) -> None:
    script = [says("The first answer."), says("A summary."), says("Second."), says("Third.")]
    with live(tmp_path, script, env={"TERM": "dumb"}, rows=40) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("/compact")
        term.wait("nothing to compact yet")
        term.send("first question")
        term.wait("The first answer.")
        term.send("/compact")
        term.wait_for(lambda: len(session.model.bodies) == 2, "the summary is asked for")
        term.send("second question")
        term.wait("Second.")
        term.send("/compact --undo")
        term.send("third question")
        term.wait("Third.")
        short, whole = (json.dumps(body["messages"]) for body in session.model.bodies[2:])
        assert ["A summary." in short, "The first answer." in short] == [True, False]
        assert ["A summary." in whole, "The first answer." in whole] == [False, True]
        assert all("first question" in told for told in (short, whole))


def test_compaction_names_the_tokens_that_the_summary_replaces(tmp_path: Path) -> None:
    model = script(tmp_path / "s.json", ["A long answer.", "A summary."])
    arguments = ["--model", model]  # it reports no usage
    with live(tmp_path, [], env={"TERM": "dumb"}, arguments=arguments) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("word " * 200)
        term.wait("A long answer.")
        term.send("/compact")
        term.wait("restores them")
        [replaced] = re.findall(r"replaces (\d+) tokens", term.raw().decode())
        assert f"Compacted {format_tokens(int(replaced))} tokens" in term.raw().decode()
