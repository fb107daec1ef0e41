"""The panel, the log, `policy explain` and the value that reaches the sandbox are one value."""

import asyncio
import json
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.toolset import Toolset
from agentcli.log.decode import parse_fact
from agentcli.log.writer import to_json
from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.explain import explain
from agentcli.permissions.judge import PolicyJudge
from agentcli.permissions.rules import PermissionRule, parse_rule
from agentcli.system.grants import find_missing
from agentcli.types.events import CallJudged, Event
from agentcli.types.grants import CREDENTIALS, NO_GRANTS, WITHOUT_SANDBOX, Grants
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Command, Effect, Output, ToolContext
from agentcli.types.verdicts import MODES, ApprovalSpan, CurrentMode, Mode, Question, Verdict
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.repl.approval import PendingApproval
from agentcli.ui.repl.approval_panel import CommandContext, render_panel
from tests.property.test_rules import PROVER, ROOT, SUBJECTS
from tests.support.examples import examples
from tests.unit.permissions.court import AnyTool

PATHS = (Path("/usr/share"), Path("/usr/lib"))
GIVEN = st.builds(
    Grants,
    network=st.booleans(),
    hosts=st.sampled_from([(), ("a.example",), ("*.b.example", "a.example:8080")]),
    writable=st.sampled_from([(), PATHS[:1]]),
    readable=st.sampled_from([(), PATHS]),
    credentials=st.sampled_from([(), ("git",), ("ssh-agent", "gh"), ("npm",)]),
    outside=st.booleans(),
)
COMMANDS = ("make x", "make x && touch y", "ls -l", "ls | make x", "echo $x", "touch y")
ENTRIES = (
    *("network:a.example", "network:x.b.example", "network:c.example", "network:all"),
    *("write:/usr/share", "read:/usr/lib", "outside", "reason:because"),
    *(f"credentials:{name}" for name in CREDENTIALS),
)


def build_rule(text: str, decision: str, grants: Grants) -> PermissionRule:
    rule = parse_rule(text, "allow" if decision == "allow" else "ask", source="user")
    return replace(rule, grants=grants)


RULES = st.lists(
    st.one_of(
        st.builds(
            build_rule,
            st.sampled_from(["bash(make:*)", "bash(touch y)", "bash(ls:*)", "bash(make x)"]),
            st.sampled_from(["allow", "allow", "ask"]),
            GIVEN,
        ),
        st.builds(
            lambda host, decision: parse_rule(f"network({host})", decision, source="user"),
            st.sampled_from(["a.example", "*.b.example", "c.example"]),
            st.sampled_from(["allow", "ask", "deny"]),
        ),
    ),
    max_size=4,
)
ANSWERS: tuple[ApprovalSpan | None, ...] = (None, "once", "session", "always")


class Shell(AnyTool):
    """Takes commands as bash does, and keeps what its sandbox would be made from."""

    def __init__(self) -> None:
        super().__init__("bash")
        self.reached: list[Grants] = []

    async def preview(self, args: Any, context: ToolContext) -> Command:
        return Command(command=args["command"], cwd=str(ROOT))

    async def run(self, args: Any, context: ToolContext) -> Output:
        self.reached.append(context.grants)
        return Output.of("")


@dataclass
class Scene:
    """One session with a user who always gives the same answer, or with nobody to ask."""

    rules: list[PermissionRule]
    mode: Mode
    answer: ApprovalSpan | None
    is_attended: bool
    has_sandbox: bool
    shell: Shell = field(default_factory=Shell)
    facts: list[Event] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    panels: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        judge = PolicyJudge(
            mode=CurrentMode(value=self.mode),
            decider=self.build_decider(),
            subjects=SUBJECTS,
            ask_user=self.ask if self.is_attended else None,
        )
        self.dispatcher = Dispatcher(
            toolset=Toolset([(self.shell.spec, lambda: self.shell)]),
            judge=judge,
            emit=self.facts.append,
            workspace=ROOT,
            breaker=Breaker(),
            pace=Pace(1000),
        )

    def build_decider(self) -> PolicyDecider:
        return PolicyDecider(
            rules=self.rules,
            find_conditions=lambda: CommandConditions(
                prover=PROVER, is_confined=True, has_sandbox=self.has_sandbox
            ),
        )

    async def ask(self, question: Question) -> Verdict:
        self.questions.append(question)
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        pending = PendingApproval(question=question, answer=answer)
        paint = Paint(columns=80, rows=24, theme=NONE, color="none")
        context = CommandContext(workspace=str(ROOT), answer_key="tab")
        rows = render_panel(pending, paint, context=context, rows=20, takes_keys=True)
        plain = (re.sub(r"\x1b\[[0-9;]*m|▌", "", row) for row in rows)
        self.panels.append(" ".join(" ".join(plain).split()))
        if self.answer is None:
            return Verdict(decision="deny", by="user", reason="no")
        return Verdict(decision="allow", by="user", reason="yes", lasts=self.answer)

    async def call(self, given: dict[str, Json], call_id: str) -> Verdict:
        await self.dispatcher.dispatch(ToolCall(id=call_id, name="bash", input=given))
        judged = [fact for fact in self.facts if isinstance(fact, CallJudged)][-1]
        assert parse_fact(json.loads(json.dumps(to_json(judged)))) == judged
        return judged.verdict


SCENES = st.builds(
    Scene,
    rules=RULES,
    mode=st.sampled_from(MODES),
    answer=st.sampled_from(ANSWERS),
    is_attended=st.booleans(),
    has_sandbox=st.sampled_from([True, True, True, False]),
)
CALLS = st.builds(
    lambda command, needs: {"command": command, **({"needs": needs} if needs else {})},
    st.sampled_from(COMMANDS),
    st.lists(st.sampled_from(ENTRIES), max_size=3, unique=True),
)


@examples(250)
@given(SCENES, CALLS)
def test_what_is_shown_logged_and_explained_is_what_the_sandbox_gets(
    scene: Scene, given_input: dict[str, Json]
) -> None:
    explained = explain(
        "bash", given_input, decider=scene.build_decider(), subjects=SUBJECTS, mode=scene.mode
    ).verdict

    logged = asyncio.run(scene.call(given_input, "c1"))

    if logged.decision == "deny":
        assert (scene.shell.reached, logged.grants) == ([], NO_GRANTS)
    else:
        assert scene.shell.reached == [logged.grants]
        assert logged.grants == explained.grants
    if not scene.questions:
        is_unattended = explained.decision == "ask" and not scene.is_attended
        assert logged.decision == ("deny" if is_unattended else explained.decision)
        return
    (question,), (panel,) = scene.questions, scene.panels
    assert explained.decision == "ask"
    assert question.verdict.grants == explained.grants
    assert question.verdict.grants.describe() in panel
    said = re.search(r"sandboxed|no sandbox", panel)
    assert said is not None
    assert (said[0] == "no sandbox") == question.verdict.grants.outside


def as_sets(grants: Grants) -> list[Any]:
    values = (getattr(grants, one.name) for one in fields(grants))
    return [set(value) if isinstance(value, tuple) else value for value in values]


@examples(200)
@given(SCENES, CALLS)
def test_grant_lasts_as_long_as_the_answer_says(scene: Scene, given_input: dict[str, Json]) -> None:
    first = asyncio.run(scene.call(given_input, "c1"))
    asked = len(scene.questions)
    again = asyncio.run(scene.call(given_input, "c2"))

    if scene.answer == "once" or not asked:
        assert len(scene.questions) == 2 * asked, "once is once"
    if first.by == "user" and scene.answer in ("session", "always"):
        is_offered = bool(scene.questions[0].suggestion.session)
        assert again.by == ("rule" if is_offered else "user")
    if again.decision == first.decision == "allow":
        assert as_sets(again.grants) == as_sets(first.grants)
    without = {"command": given_input["command"]}
    fresh = Scene(scene.rules, scene.mode, None, is_attended=False, has_sandbox=scene.has_sandbox)
    before = asyncio.run(fresh.call(without, "c3"))
    if scene.answer == "once" and before.decision == "allow":
        after = asyncio.run(scene.call(without, "c4"))
        assert after.grants == before.grants


@examples(200)
@given(SCENES, CALLS)
def test_request_is_either_met_or_refused(scene: Scene, given_input: dict[str, Json]) -> None:
    verdict = asyncio.run(scene.call(given_input, "c1"))

    needed = SUBJECTS.build("bash", given_input, effect=Effect.EXECUTE).request.grants
    if verdict.decision == "allow":
        assert find_missing(needed, verdict.grants, workspace=ROOT) == NO_GRANTS
    if not needed.outside and scene.has_sandbox and not any(r.grants.outside for r in scene.rules):
        assert verdict.grants != WITHOUT_SANDBOX


def test_lasting_answer_that_was_not_offered_is_for_the_call_alone() -> None:
    rule = parse_rule("network(a.example)", "ask", source="user")
    scene = Scene([rule], "ask", "session", is_attended=True, has_sandbox=True)
    asked: dict[str, Json] = {"command": "make x", "needs": ["network:a.example", "outside"]}
    for call_id in ("c1", "c2"):
        assert asyncio.run(scene.call(asked, call_id)).by == "user"
    assert len(scene.questions) == 2
