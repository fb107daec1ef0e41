import asyncio
import json
from contextlib import suppress
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.evaluator import ModelEvaluator
from agentcli.permissions.hook_answer import HookAnswer, parse_answer
from agentcli.permissions.hook_events import HookEvent
from agentcli.permissions.hook_process import HookProblem, HookRun
from agentcli.permissions.judge import EvaluationRequest
from agentcli.system.plain_text import escape_controls, show_controls
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict
from tests.support.examples import examples
from tests.support.session import ListWire, reply

ACTIVE = {chr(code) for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}
TURNING = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
words = st.sampled_from(["allow", "approve", "ask", "deny", "block"]) | values
fields = st.fixed_dictionaries(
    {},
    optional={
        "permissionDecision": words,
        "decision": words,
        "reason": values,
        "updatedInput": values,
        "updatedToolOutput": values,
        "additionalContext": values,
        "systemMessage": values,
        "continue": values,
        "hookSpecificOutput": values,
    },
)
opinions = st.fixed_dictionaries({"decision": words, "reason": texts | values}).map(json.dumps)
outputs = texts | fields.map(json.dumps) | fields.map(lambda one: json.dumps(one)[:-1])
runs = st.builds(HookRun, exit_code=st.integers(-9, 3), stdout=outputs, stderr=texts)


@given(event=st.sampled_from(get_args(HookEvent)), ran=runs)
@examples(300)
def test_whatever_a_hook_says_is_an_answer_or_a_problem(event: HookEvent, ran: HookRun) -> None:
    answer = HookAnswer()
    with suppress(HookProblem):
        answer = parse_answer(event, ran, clean=str)

    assert answer.decision != "failed"
    said = answer.reason + answer.context + answer.message + (answer.output or "")
    assert not (ACTIVE - {"\n", "\t"}) & set(said)
    if ran.exit_code not in (0, 2):
        assert answer == HookAnswer()


@given(text=texts | opinions)
@examples(200)
def test_only_the_word_itself_is_an_opinion_to_allow(text: str) -> None:
    asks = Verdict(decision="ask", by="evaluator", reason="x")
    matter = EvaluationRequest(
        call=ToolCall(id="1", name="bash", input={}),
        effect=Effect.EXECUTE,
        workspace="/w",
        mode="ask",
        verdict=asks,
    )

    verdict = asyncio.run(ModelEvaluator(ListWire([reply(text)]), model="m", session="s")(matter))

    if verdict.decision == "allow":
        assert json.loads(text)["decision"] == "allow"


@given(st.text())
@examples(200)
def test_text_made_inert_or_visible_has_nothing_a_terminal_acts_on(text: str) -> None:
    assert not ACTIVE & set(escape_controls(text)) - set("\n\t\r\f")
    assert not (ACTIVE | TURNING) & set(show_controls(text)) - set("\n\t")
    assert len(escape_controls(text)) == len(show_controls(text)) == len(text)
