from pathlib import Path
from typing import Any

from agentcli.agent.children import CHILD_INSTRUCTIONS
from agentcli.types.errors import Exit
from tests.support import anthropic_streams as anthropic
from tests.support.program import Ran, agentcli, read_facts, session_log
from tests.support.provider import Provider, Recorded, Reply, answer
from tests.support.repl import KEY, says

OVERLOADED = answer({"error": {"message": "busy"}}, status=529, headers={"x-should-retry": "false"})
SECOND = "claude-haiku-5-5"


def run(home: Path, script: Any, **more: str) -> tuple[Ran, list[str]]:
    """And which models were asked, in their order, without repetitions."""
    with Provider([script] * 100) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url, **more}
        ran = agentcli("run", "--model", "opus", "go", home=home, env=env)
        asked = [body["model"] for body in provider.bodies]
    return ran, list(dict.fromkeys(asked))


def warnings(home: Path) -> list[str]:
    facts = read_facts(session_log(home))
    return [fact["message"] for fact in facts if fact.get("code") == "model.fallback"]


def test_second_choice_goes_on_where_the_first_is_overloaded(tmp_path: Path) -> None:
    def model(request: Recorded) -> Reply:
        return says("Here I am.") if request.json["model"] == SECOND else OVERLOADED

    ran, asked = run(tmp_path, model, AGENTCLI_FALLBACK=f"anthropic/{SECOND}")
    assert (ran.code, ran.out) == (0, "Here I am.\n")
    assert asked == ["claude-opus-5-5", SECOND]
    assert warnings(tmp_path) == [
        f"anthropic/claude-opus-5-5 does not answer; continuing with anthropic/{SECOND}"
    ]


def test_without_a_second_choice_the_overload_is_the_outcome(tmp_path: Path) -> None:
    ran, asked = run(tmp_path, lambda request: OVERLOADED)
    assert (ran.code, asked) == (Exit.PROVIDER, ["claude-opus-5-5"])
    assert warnings(tmp_path) == []


def test_second_choice_that_is_overloaded_too_is_the_end(tmp_path: Path) -> None:
    ran, asked = run(tmp_path, lambda request: OVERLOADED, AGENTCLI_FALLBACK=f"anthropic/{SECOND}")
    assert (ran.code, asked) == (Exit.PROVIDER, ["claude-opus-5-5", SECOND])


def test_child_goes_on_with_the_second_choice_and_so_does_its_parent(tmp_path: Path) -> None:
    tasks = [anthropic.call(f"toolu_{n}", "delegate", {"task": f"find {n}"}) for n in range(2)]

    def model(request: Recorded) -> Reply:
        if CHILD_INSTRUCTIONS in str(request.json["messages"]):
            return says("Found.") if request.json["model"] == SECOND else OVERLOADED
        has_results = "toolu_0" in str(request.json["messages"])
        return says(f"Done by {request.json['model']}.") if has_results else anthropic.calls(*tasks)

    ran, _ = run(tmp_path, model, AGENTCLI_FALLBACK=f"anthropic/{SECOND}")
    assert (ran.code, ran.out) == (0, f"Done by {SECOND}.\n")
    assert len(warnings(tmp_path)) == 1
