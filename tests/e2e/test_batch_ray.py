"""`agentcli batch` on Ray: nodes that share nothing with the batch, and losses of every kind."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment
from tests.support.provider import Provider, Recorded, Reply

cluster_utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
ray_engine = pytest.importorskip("agentcli.features.batch.ray_engine")

KEY = "sk-test-secret-0123456789"


def answer(request: Recorded) -> Reply:
    """Write a file named as the prompt says, then end."""
    messages = request.json["messages"]
    (name,) = re.findall(r"make (t\d+)", json.dumps(messages[0]))
    if "tool_result" not in json.dumps(messages):
        made = {"path": f"{name}.txt", "content": f"{name}\n"}
        return anthropic.calls(anthropic.call("c1", "write_file", made))
    return anthropic.says(f"Made {name}.")


class Fleet:
    """A repository, a file of tasks, and a provider that all nodes reach."""

    def __init__(self, tmp_path: Path, *, tasks: int) -> None:
        self.tmp_path, self.work = tmp_path, tmp_path / "work"
        self.names = [f"t{number}" for number in range(tasks)]
        self.sample = self.names[:: max(1, tasks // 50)]
        """The tasks that are also run locally, to compare them."""
        self.file = self._write_tasks("tasks.jsonl", self.names)
        self.sample_file = self._write_tasks("sample.jsonl", self.sample)
        (self.work / "sub").mkdir(parents=True)
        (self.work / "sub" / "a.txt").write_text("one\n")
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
            subprocess.run([*git, *words], cwd=self.work, check=True)

    def _write_tasks(self, file: str, names: list[str]) -> Path:
        lines = (json.dumps({"id": name, "prompt": f"make {name}"}) for name in names)
        path = self.tmp_path / file
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def environ(self, home: str, provider: Provider, **more: str) -> dict[str, str]:
        directory = self.tmp_path / home
        directory.mkdir(exist_ok=True)
        urls = {"ANTHROPIC_BASE_URL": provider.base_url, "AGENTCLI_MODEL": "opus"}
        return environment(directory, **urls, **more)

    def start(self, out: str, environ: dict[str, str], *options: str) -> "subprocess.Popen[str]":
        file = self.sample_file if out == "local" else self.file
        where = ("-C", str(self.work / "sub"), "--mode", "auto-edit", "--sandbox", "off")
        return subprocess.Popen(
            [PROGRAM, "batch", file, *where, "--out", self.tmp_path / out, *options],
            env=environ,
            cwd=self.tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_results(self, out: str) -> dict[str, dict[str, Any]]:
        report = json.loads((self.tmp_path / out / "report.json").read_text())
        assert [one["id"] for one in report["results"]] == self.names
        return {one["id"]: one for one in report["results"]}

    def read_record(self, out: str, name: str) -> list[Any]:
        """Return the facts of a task's log without what differs from run to run."""
        log = (self.tmp_path / out / "tasks" / name / "log.jsonl").read_text()
        facts = [json.loads(line)["fact"] for line in log.splitlines()]
        # The state of the work tree comes when git has found it, before a request or the next.
        facts = [fact for fact in facts if "[Work tree" not in fact.get("text", "")]
        workspace, session = facts[0]["workspace"], facts[0]["session"]
        text = json.dumps(facts).replace(workspace, "TREE").replace(session, "SESSION")
        record: list[Any] = json.loads(re.sub(r'"duration_s": [\d.e-]+', '"duration_s": 0', text))
        return record

    def assert_same_records(self, one: str, other: str) -> None:
        def read(out: str, name: str) -> tuple[list[Any], str]:
            patch = self.tmp_path / out / "tasks" / name / "patch.diff"
            return self.read_record(out, name), patch.read_text()

        assert [name for name in self.sample if read(one, name) != read(other, name)] == []


@contextmanager
def start_cluster(environ: dict[str, str], *, nodes: int, cpus: int) -> Iterator[Any]:
    """Start nodes as processes of this machine, each with this environment: keys and home."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=cpus)
        yield cluster
    finally:
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


def wait_until(is_true: Callable[[], bool], *, limit_s: float = 100.0) -> None:
    end = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def find_workers(home: Path) -> list[int]:
    """Return the pids of the Ray workers that run a task of ours."""
    found = subprocess.run(["pgrep", "-f", "ray::run_on_node"], capture_output=True, text=True)
    pids = [int(pid) for pid in found.stdout.split()]
    return [pid for pid in pids if str(home) in read_environ(pid)]


def read_environ(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except OSError:  # it has ended
        return ""


def has_done(out: Path, count: int) -> bool:
    return len(list(out.glob("tasks/*/done.json"))) >= count


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_lost_node_loses_no_task_and_nodes_need_nothing_of_ours(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, tasks=12)
    with Provider([answer] * 400) as provider:
        local = fleet.start("local", fleet.environ("home", provider, ANTHROPIC_API_KEY=KEY))
        assert local.wait(110) == 0
        of_nodes = fleet.environ("node-home", provider, ANTHROPIC_API_KEY=KEY)
        with start_cluster(of_nodes, nodes=2, cpus=2) as cluster:
            ours = fleet.environ("home", provider, RAY_ADDRESS=cluster.address)
            batch = fleet.start("ray", ours, "--engine", "ray", "--workers", "4")
            wait_until(partial(has_done, tmp_path / "ray", 3))
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            _, err = batch.communicate(timeout=300)
    assert batch.returncode == 0, err
    assert {one["status"] for one in fleet.read_results("ray").values()} == {"ok"}
    fleet.assert_same_records("local", "ray")
    unpacked = list((tmp_path / "node-home/.cache/agentcli/nodes").glob("*.subdirectory"))
    assert [path.read_text() for path in unpacked] == ["sub"]
    assert not list((tmp_path / "home/.cache/agentcli").glob("nodes/*"))


@pytest.mark.soak
@pytest.mark.timeout(5000)
@pytest.mark.parametrize("tasks", [40, 1000])
def test_killed_workers_and_driver_leave_one_result_for_each_task(
    tasks: int, tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path, tasks=tasks)
    out = tmp_path / "ray"
    with Provider([answer] * (tasks * 8 + 400)) as provider:
        environ = fleet.environ("home", provider, ANTHROPIC_API_KEY=KEY)
        options = ("--engine", "ray", "--workers", "4")
        batch = fleet.start("ray", environ, *options)
        for share in (tasks // 8, tasks // 4, tasks * 3 // 8):
            wait_until(partial(has_done, out, share), limit_s=2500)
            wait_until(lambda: bool(find_workers(tmp_path)))
            os.kill(find_workers(tmp_path)[0], signal.SIGKILL)
        wait_until(partial(has_done, out, tasks // 2), limit_s=2500)
        batch.kill()
        batch.communicate(timeout=60)
        before = {path: path.read_bytes() for path in out.glob("tasks/*/done.json")}
        wait_until(lambda: not find_workers(tmp_path))
        assert [path for path, done in before.items() if json.loads(done)["status"] != "ok"] == []
        again = fleet.start("ray", environ, *options)
        _, err = again.communicate(timeout=4500)
        failed = [line for line in err.splitlines() if " ok " not in line]
        assert again.returncode == 0, failed
        assert f"{len(before)} of {tasks} tasks are already done\n" in err
        assert fleet.start("local", environ, "--workers", "2").wait(2500) == 0
    results = fleet.read_results("ray")
    assert [one for one in results.values() if one["status"] != "ok"] == []
    assert len({one["session"] for one in results.values()}) == tasks
    assert all(path.read_bytes() == content for path, content in before.items())
    fleet.assert_same_records("local", "ray")


def test_keys_are_not_sent_to_nodes() -> None:
    environ = {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "LAB_BASE_URL": f"http://me:{KEY}@lab",
        "AGENTCLI_MODEL": "opus",
        "AGENTCLI_API_TOKEN": KEY,
        "OLLAMA_HOST": "10.0.0.7:11434",
        "HOME": "/home/me",
    }
    assert ray_engine.find_shared_variables(environ) == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "AGENTCLI_MODEL": "opus",
        "OLLAMA_HOST": "10.0.0.7:11434",
    }
