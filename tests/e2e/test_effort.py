from pathlib import Path

import pytest

from tests.support.program import agentcli
from tests.support.provider import Provider
from tests.support.repl import KEY, live, says


def test_effort_is_changed_shown_and_kept(tmp_path: Path) -> None:
    script = [says("One."), says("Two."), says("Three."), says("Four.")]
    with live(tmp_path, script, arguments=["--effort", "low"], cols=120) as session:
        term = session.term
        term.wait("claude-opus-5-5:low")
        term.send("hi")
        term.wait("One.")
        term.send("/effort high")
        term.wait("claude-opus-5-5:high")
        term.send("hi")
        term.wait("Two.")
        term.send("/model sonnet:medium")
        term.wait("claude-sonnet-5-5:medium")
        term.send("hi")
        term.wait("Three.")
        term.send("/effort much")
        term.wait("error: no effort much")
        term.key("c-d")
        term.gone()
        sent = [body["output_config"]["effort"] for body in session.model.bodies]
    assert sent == ["low", "high", "medium"]
    with live(tmp_path, [says("Four.")], arguments=["--continue"], cols=120) as session:
        session.term.wait("claude-opus-5-5:medium")


@pytest.mark.parametrize(
    ("options", "effort"),
    [(("--model", "opus:xhigh"), "xhigh"), (("--model", "opus", "--effort", "none"), "low")],
)
def test_effort_of_a_run(options: tuple[str, ...], effort: str, home: Path) -> None:
    with Provider([says("Done.")]) as model:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.base_url}
        ran = agentcli("run", *options, "go", home=home, env=env)
        assert ran.code == 0, ran.err
        assert model.bodies[0]["output_config"] == {"effort": effort}
