from pathlib import Path
from typing import Any

from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import run_against
from tests.support.provider import Provider, sse, stream
from tests.support.repl import live, says

LARGE = {"input_tokens": 10, "cache_creation_input_tokens": 60_000, "output_tokens": 1}


def find_markers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        own = [value["cache_control"]] if "cache_control" in value else []
        return own + [one for item in value.values() for one in find_markers(item)]
    return [one for item in value for one in find_markers(item)] if isinstance(value, list) else []


def test_session_keeps_prompts_for_an_hour_and_counts_down(tmp_path: Path) -> None:
    hello = stream(sse(anthropic.events([anthropic.text("Hello.")], usage=LARGE)))
    with live(tmp_path, [hello], cols=120) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("Hello.")
        term.wait("cache 60m")
        markers = find_markers(session.model.bodies[0])
        assert markers
        assert all(one == {"type": "ephemeral", "ttl": "1h"} for one in markers)
        term.send("/cost")
        term.wait("By turn")
        term.wait("your messages")


def test_run_keeps_prompts_for_minutes_and_names_its_tier(home: Path, workspace: Path) -> None:
    with Provider([says("Done.")]) as model:
        env = {"AGENTCLI_SERVICE_TIER": "priority"}
        ran = run_against(model, "-o", "json", "go", home=home, cwd=workspace, env=env)
    assert ran.code == 0, ran.err
    assert all(one == {"type": "ephemeral"} for one in find_markers(model.bodies[0]))
    assert model.bodies[0]["service_tier"] == "priority"
    assert ran.events[-1]["cost_is_estimate"] is True


def test_child_agents_use_the_small_model_or_that_of_their_role(
    home: Path, workspace: Path
) -> None:
    role = workspace / ".agentcli" / "agents" / "thinker.md"
    role.parent.mkdir(parents=True)
    role.write_text("---\ndescription: Thinks.\nmodel: sonnet\neffort: max\n---\nThink.\n")
    asked = [
        anthropic.calls(anthropic.call("c1", "delegate", {"task": "look"})),
        says("Found."),
        anthropic.calls(anthropic.call("c2", "delegate", {"task": "think", "role": "thinker"})),
        says("Thought."),
        says("Done."),
    ]
    with Provider(asked) as model:
        env = {"AGENTCLI_SMALL_MODEL": "haiku"}
        ran = run_against(model, "--trust-project", "go", home=home, cwd=workspace, env=env)
    assert ran.code == 0, ran.err
    sent = [(body["model"], body.get("output_config")) for body in model.bodies]
    opus = ("claude-opus-5-5", None)
    small, own = ("claude-haiku-5-5", None), ("claude-sonnet-5-5", {"effort": "max"})
    assert sent == [opus, small, opus, own, opus]


def test_summary_is_written_by_the_small_model_or_else_by_the_own(tmp_path: Path) -> None:
    script = [says("Hello."), says("A summary."), says("Bye.")]
    env = {"AGENTCLI_SMALL_MODEL": "haiku"}
    with live(tmp_path, script, env=env) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("Hello.")
        term.send("/compact")
        term.wait("Compacted")
        names = [body["model"] for body in session.model.bodies]
        assert names == ["claude-opus-5-5", "claude-haiku-5-5"]


def test_session_is_named_by_the_small_model(tmp_path: Path) -> None:
    script = [says("Hello."), says('"Greeting the agent."')]
    with live(tmp_path, script, env={"AGENTCLI_SMALL_MODEL": "haiku"}) as session:
        term = session.term
        term.ready()
        term.send("/name")
        term.wait("nothing to name this session by yet")
        term.send("say hello")
        term.wait("Hello.")
        term.send("/name")
        term.wait("Named this session Greeting the agent")
        asked = session.model.bodies[1]
        assert asked["model"] == "claude-haiku-5-5"
        assert "say hello" in str(asked["messages"])
        assert "tools" not in asked
        term.send("/cost")
        term.wait("2 requests")
