"""What other harnesses read: ATIF trajectories, predictions for SWE-bench, an agent for Harbor."""

import asyncio
import json
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, agentcli, environment, script
from tests.support.provider import Provider

pytestmark = pytest.mark.usefixtures("without_sandbox")

OLD_LOGS = sorted((Path(__file__).parents[2] / "fixtures" / "old_logs").rglob("*.jsonl"))
WITH_HARBOR = pytest.mark.skipif(find_spec("harbor") is None, reason="Harbor is not installed")


def check_trajectory(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Hold the rules of ATIF, with Harbor's own model where it is installed. Return the steps."""
    steps: list[dict[str, Any]] = document["steps"]
    assert [step["step_id"] for step in steps] == [*range(1, len(steps) + 1)]
    assert document["schema_version"] == "ATIF-v1.7"
    for step in steps:
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        found = {row["source_call_id"] for row in step.get("observation", {}).get("results", ())}
        assert found <= calls
        assert isinstance(step["message"], str)
        if step["source"] != "agent":
            assert step.keys() <= {"step_id", "timestamp", "source", "message"}
    if find_spec("harbor"):
        import_module("harbor.models.trajectories").Trajectory.model_validate(document)
    return steps


def test_session_is_a_trajectory_with_calls_results_and_costs(home: Path, workspace: Path) -> None:
    broken = anthropic.call("c2", "grep", "not an object")
    written = anthropic.call("c1", "write_file", {"path": "a.txt", "content": "one\n"})
    thought = anthropic.thinking("A file is missing.")
    replies = [anthropic.calls(written, broken, before=[thought]), *[anthropic.says("Made.")] * 2]
    with Provider(replies) as provider:
        urls = {"ANTHROPIC_BASE_URL": provider.base_url, "ANTHROPIC_API_KEY": "sk-test-01234567"}
        options = ("--model", "opus", "--mode", "auto-edit")
        assert agentcli("run", "make a.txt", *options, home=home, cwd=workspace, env=urls).code == 0
    out = home / "trajectory.json"
    ran = agentcli("export", "--format", "atif", "-o", out, home=home, cwd=workspace)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    user, acted = (step for step in check_trajectory(document)[:3] if step["source"] != "system")
    assert (user["source"], user["message"]) == ("user", "make a.txt")
    assert acted["reasoning_content"] == "A file is missing."
    first, second = acted["tool_calls"]
    assert first["arguments"] == {"path": "a.txt", "content": "one\n"}
    assert (second["function_name"], second["arguments"]["invalid"]) == ("grep", "not an object")
    statuses = [row["extra"]["status"] for row in acted["observation"]["results"]]
    assert statuses == ["ok", "error"]
    total = document["final_metrics"]
    agent_steps = [step for step in document["steps"] if step["source"] == "agent"]
    costs = [step["metrics"]["cost_usd"] for step in agent_steps]
    assert total["total_cost_usd"] == pytest.approx(sum(costs))
    assert total["total_prompt_tokens"] == 12 * len(agent_steps)


@pytest.mark.parametrize("log", OLD_LOGS, ids=lambda log: log.parent.name)
def test_log_of_any_version_is_a_trajectory(log: Path, home: Path) -> None:
    ran = agentcli("export", log, "--format", "atif", home=home)
    assert ran.code == 0, ran.err
    assert check_trajectory(json.loads(ran.out))


def test_changes_of_a_batch_are_predictions_for_swe_bench(home: Path, workspace: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    (workspace / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], cwd=workspace, check=True)
    change = {"edit_file": {"path": "a.txt", "old": "one", "new": "two"}}
    fixed = script(
        home / "fixed.json",
        [{"calls": [{"read_file": {"path": "a.txt"}}]}, {"calls": [change]}, "Fixed."],
    )
    tasks = [
        {"id": "django__django-11099", "prompt": "fix it", "model": fixed},
        {"id": "sympy__sympy-1", "prompt": "fix it", "model": script(home / "no.json", [])},
    ]
    (home / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    path = home / "predictions.jsonl"
    where = ("-C", workspace, "--mode", "auto-edit", "--predictions", path)
    agentcli("batch", home / "tasks.jsonl", *where, home=home)
    solved, failed = map(json.loads, path.read_text().splitlines())
    assert solved.keys() == {"instance_id", "model_name_or_path", "model_patch"}
    assert (solved["instance_id"], failed["instance_id"]) == (tasks[0]["id"], tasks[1]["id"])
    assert solved["model_name_or_path"] == f"agentcli/{fixed}"
    assert failed["model_patch"] == ""
    check = ["git", "apply", "--check", "-"]
    subprocess.run(check, cwd=workspace, input=solved["model_patch"], text=True, check=True)
    if find_spec("swebench"):
        read = import_module("swebench.harness.utils").get_predictions_from_file
        assert read(str(path), "", "") == [solved, failed]


class ThisMachine:
    """An environment of Harbor without a container: its commands run here."""

    default_user = None

    def __init__(self, home: Path, work: Path) -> None:
        self._home, self._work = home, work
        self.commands: list[str] = []

    async def exec(self, command: str, **options: Any) -> Any:
        self.commands.append(command)
        env = {**environment(self._home), **(options.get("env") or {})}
        env["PATH"] = f"{PROGRAM.parent}:{env['PATH']}"
        ran = await asyncio.create_subprocess_exec(
            *(shutil.which("bash") or "bash", "-c", command),
            cwd=self._work,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await ran.communicate()
        result = import_module("harbor.environments.base").ExecResult
        return result(stdout=out.decode(), stderr=err.decode(), return_code=ran.returncode or 0)


@WITH_HARBOR
@pytest.mark.parametrize("ends_well", [True, False])
def test_harbor_runs_the_agent_and_reads_what_it_cost(
    ends_well: bool, home: Path, workspace: Path
) -> None:
    agent_class = import_module("agentcli.features.eval.harbor").HarborAgent
    context = import_module("harbor.models.agent.context").AgentContext()
    logs = home / "logs"
    logs.mkdir()
    written = anthropic.call("c1", "write_file", {"path": "it's.txt", "content": "one\n"})
    machine = ThisMachine(home, workspace)
    with Provider([anthropic.calls(written), *[anthropic.says("Made.")] * 2]) as provider:
        agent = agent_class(
            logs_dir=logs,
            environment_logs_dir=PurePosixPath(logs),
            model_name="anthropic/claude-opus-5-5" if ends_well else "anthropic/",
            package="agentcli-0.1.0-py3-none-any.whl",
            max_turns=7,
            extra_env={
                "ANTHROPIC_API_KEY": "sk-test-01234567",
                "ANTHROPIC_BASE_URL": provider.base_url,
            },
        )
        running = agent.run("make it's.txt", machine, context)
        if not ends_well:
            with pytest.raises(RuntimeError):
                asyncio.run(running)
            return
        asyncio.run(running)
    assert "--max-turns 7" in machine.commands[0]
    assert (workspace / "it's.txt").read_text() == "one\n"
    assert check_trajectory(json.loads((logs / "trajectory.json").read_text()))
    agent.populate_context_post_run(context)
    assert (context.n_input_tokens, context.n_output_tokens) == (36, 102)
    assert context.cost_usd == pytest.approx(3 * 0.000728)
