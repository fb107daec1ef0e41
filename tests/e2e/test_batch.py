import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.mcp_links import NASTY
from tests.support.program import PROGRAM, Ran, agentcli, environment, script, write_fork_command
from tests.support.provider import Provider, Reply

pytestmark = pytest.mark.usefixtures("without_sandbox")

EDIT = [
    {"calls": [{"write_file": {"path": "made.txt", "content": "made\n"}}]},
    "Made.",
]


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.home, self.work = tmp_path / "home", tmp_path / "work"
        self.home.mkdir()
        self.work.mkdir()
        (self.work / "a.txt").write_text("one\n")
        self.out = tmp_path / "tasks.out"
        self.file = tmp_path / "tasks.jsonl"
        self.tmp_path = tmp_path

    def with_git(self) -> "Ground":
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
            subprocess.run(["git", *identity, *words], cwd=self.work, check=True)
        return self

    def tasks(self, *tasks: dict[str, Any] | str) -> None:
        self.file.write_text(
            "".join(f"{it if isinstance(it, str) else json.dumps(it)}\n" for it in tasks)
        )

    def task(self, name: str, replies: list[Any], **more: Any) -> dict[str, Any]:
        model = script(self.tmp_path / f"{name}.json", replies)
        return {"id": name, "prompt": "go", "model": model, **more}

    def run(self, *options: str, env: dict[str, str] | None = None) -> Ran:
        where = ("-C", self.work, "--mode", "auto-edit")
        return agentcli("batch", self.file, *where, *options, home=self.home, env=env)

    def begun(self, *options: str, is_killed: bool = False) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [
                PROGRAM if is_killed else write_fork_command(),
                "batch",
                self.file,
                "-C",
                self.work,
                *options,
            ],
            env=environment(self.home),
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.out / "report.json").read_text())
        return report

    def sessions(self) -> dict[str, str]:
        return {result["id"]: result["session"] for result in self.report["results"]}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
ENGINES = ["local", pytest.param("ray", marks=WITH_RAY)]


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.soak)])
@pytest.mark.parametrize("engine", ENGINES)
def test_many_tasks_on_two_workers(engine: str, count: int, ground: Ground) -> None:
    model = script(ground.tmp_path / "s.json", ["Done."])
    names = [f"t{number}" for number in range(count)]
    ground.tasks(*({"id": name, "prompt": f"make {name}"} for name in names))
    batch = ground.with_git().begun("--model", model, "--workers", "2", "--engine", engine)
    out, err = batch.communicate(timeout=110)
    said = f"{count} of {count} succeeded: {ground.out / 'report.md'}\n"
    assert (batch.returncode, out) == (0, said)
    report = ground.report
    assert [result["id"] for result in report["results"]] == names
    assert (report["ok"], report["failed"], report["not_run"]) == (count, 0, [])
    assert len(set(ground.sessions().values())) == count
    assert err.count("ok     t") == count


def test_results_inside_the_repository_are_no_changes_of_it(ground: Ground) -> None:
    ground.with_git().tasks(ground.task("a", EDIT))
    out = ground.work / "results"
    for _ in range(2):
        assert "warning" not in ground.run("--out", str(out)).err
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=ground.work) == b""
    ground.tasks(ground.task("b", EDIT))
    (ground.work / "a.txt").write_text("two\n")
    assert "warning: the worktrees of the tasks do not include" in ground.run("--out", str(out)).err


def test_every_task_changes_a_worktree_of_its_own_and_leaves_a_patch(ground: Ground) -> None:
    ground.with_git().tasks(ground.task("a", EDIT), ground.task("b", EDIT))
    assert ground.run().code == 0
    for name in ("a", "b"):
        patch = (ground.out / "tasks" / name / "patch.diff").read_text()
        assert "+++ b/made.txt\n@@ -0,0 +1,1 @@\n+made\n" in patch
    assert not (ground.work / "made.txt").exists()
    listed = ["git", "worktree", "list"]
    assert subprocess.check_output(listed, cwd=ground.work).count(b"\n") == 1
    before = ground.sessions()
    again = ground.run()
    assert (again.code, again.err) == (0, "2 of 2 tasks are already done\n")
    assert ground.sessions() == before


COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more"


@pytest.mark.parametrize("repository", [True, False])
def test_directory_is_kept_if_the_patch_does_not_have_all_of_it(
    repository: bool, ground: Ground
) -> None:
    if repository:
        ground.with_git()
    secret = {"path": "test.env", "content": "TEST_PASSWORD=hunter2xyz9\nB=1\n"}
    big = {"command": "head -c 9000000 /dev/urandom > big.bin; echo two > a.txt"}
    ground.tasks(
        ground.task("secret", [{"calls": [{"write_file": secret}]}, "Done."]),
        ground.task("big", [{"calls": [{"bash": big}]}, "Done."]),
        ground.task("whole", EDIT),
    )
    ran = ground.run("--mode", "auto")
    assert ran.code == 0, ran.err
    hidden, large, whole = ground.report["results"]
    assert hidden["not_in_patch"] == [
        {"path": "test.env", "reason": "tokens stand for hidden values"}
    ]
    assert (Path(hidden["tree"]) / "test.env").read_text() == secret["content"]
    assert large["not_in_patch"] == [{"path": "big.bin", "reason": "too large or unreadable"}]
    assert (Path(large["tree"]) / "big.bin").stat().st_size == 9_000_000
    assert (whole["not_in_patch"], whole["tree"]) == ([], None)
    said = (
        "its patch is incomplete: test.env (tokens stand for hidden values); "
        f"its directory is kept: {hidden['tree']}"
    )
    assert said in ran.err and said in (ground.out / "report.md").read_text()
    assert ran.err.count("incomplete") == 2


def test_directory_with_commits_is_kept(ground: Ground) -> None:
    branch = f"git checkout -q -b theirs; {COMMIT} -m other"
    ground.with_git().tasks(
        ground.task("loose", [{"calls": [{"bash": {"command": COMMIT}}]}, "Done."]),
        ground.task("branch", [{"calls": [{"bash": {"command": branch}}]}, "Done."]),
    )
    ran = ground.run("--mode", "auto")
    assert ran.code == 0, ran.err
    loose, named = ground.report["results"]
    assert loose["not_in_patch"][0]["reason"].startswith("it has commits, the last is ")
    log = subprocess.check_output(["git", "log", "-1", "--format=%s"], cwd=loose["tree"])
    assert log == b"more\n"
    assert (named["not_in_patch"], named["tree"]) == ([], None)


@pytest.mark.parametrize("repository", [True, False])
def test_directory_with_a_repository_of_its_own_is_kept(repository: bool, ground: Ground) -> None:
    if repository:
        ground.with_git()
    else:  # a copy has it, too
        subprocess.run(["git", "init", "-q", "theirs"], cwd=ground.work, check=True)
    calls = [{"bash": {"command": "git init -q new"}}]
    ground.tasks(ground.task("makes", [{"calls": calls}, "Done."]), ground.task("none", EDIT))
    assert ground.run("--mode", "auto").code == 0
    makes, none = ground.report["results"]
    assert makes["not_in_patch"] == [{"path": "new", "reason": "a repository of its own"}]
    assert (Path(makes["tree"]) / "new" / ".git").is_dir()
    assert (none["not_in_patch"], none["tree"]) == ([], None)


def test_wrong_lines_and_failures_are_told_and_the_rest_is_done(ground: Ground) -> None:
    ground.tasks(
        ground.task("good", EDIT),
        "{broken",
        ground.task("denied", [{"calls": [{"bash": {"command": "touch x"}}]}, "x"]),
        ground.task("no-model", [], model="script/nowhere.json"),
    )
    ran = ground.run()
    assert ran.code == 5
    assert ran.out == (
        f"1 of 3 succeeded, 2 failed, 1 line of the file invalid: {ground.out / 'report.md'}\n"
    )
    assert ran.err.startswith("error: invalid task in line 2: not JSON: ")
    results = {result["id"]: result for result in ground.report["results"]}
    assert {name: result["status"] for name, result in results.items()} == {
        "good": "ok",
        "denied": "denied",
        "no-model": "error",
    }
    assert results["good"]["tree"] is None
    assert (Path(results["denied"]["tree"]) / "a.txt").read_text() == "one\n"
    assert "| [denied](tasks/denied/answer.md) | denied |" in (ground.out / "report.md").read_text()


def test_wrong_line_says_which_id_is_taken_and_what_is_wrong_with_a_prompt(ground: Ground) -> None:
    ground.tasks(
        ground.task("a", EDIT),
        {"id": "A", "prompt": "x"},
        {"id": "b", "prompt": "x\0y"},
    )
    ran = ground.run()
    assert ran.err.splitlines()[:2] == [
        "error: invalid task in line 2: another task has the id a, "
        "and A differs only in upper and lower case",
        "error: invalid task in line 3: the prompt has a NUL character, which is not text",
    ]


def test_wrong_value_costs_its_own_task_alone(ground: Ground) -> None:
    ground.tasks(ground.task("wrong", EDIT, max_cost=0), ground.task("good", EDIT))
    for _ in range(2):
        ran = ground.run()
        assert ran.code == 2
        assert ran.out == (
            f"1 of 1 succeeded, 1 line of the file invalid: {ground.out / 'report.md'}\n"
        )
        assert ran.err.startswith(
            "error: invalid task in line 1: max_cost must be a number above 0, not '0'\n"
        )


def test_servers_and_rules_of_the_command_line_hold_in_every_task(ground: Ground) -> None:
    server = {"command": sys.executable, "args": [str(NASTY), "plain"]}
    servers = ground.tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"nasty": server}}))
    rules = ground.tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndecision = "allow"\nrule = "mcp(nasty:echo)"\n')
    replies = [{"calls": [{"nasty__echo": {"text": "hi"}}]}, "Heard."]
    ground.tasks(ground.task("a", replies))
    assert ground.run("--mcp-config", str(servers)).code == 5
    both = ("--mcp-config", str(servers), "--policy", str(rules), "--retry-failed")
    assert ground.run(*both).code == 0
    assert ground.report["results"][0]["answer"] == "Heard."


def test_failed_task_runs_again_when_wanted_or_changed(ground: Ground) -> None:
    ground.tasks(ground.task("a", ["Yes."]), ground.task("b", []))
    assert ground.run().code != 0
    script(ground.tmp_path / "b.json", ["Now."])
    first = ground.sessions()
    assert ground.run().code != 0
    assert ground.sessions() == first
    assert ground.run("--retry-failed").code == 0
    second = ground.sessions()
    assert (second["a"], second["b"] != first["b"]) == (first["a"], True)
    ground.tasks(ground.task("a", ["Yes."], prompt="go on"), ground.task("b", ["Now."]))
    assert ground.run().code == 0
    assert (ground.sessions()["a"] != first["a"], ground.sessions()["b"]) == (True, second["b"])


@pytest.mark.parametrize(
    ("engine", "victim"),
    [
        ("local", "$PPID"),
        pytest.param("ray", "$PPID", marks=WITH_RAY),
        pytest.param("ray", "$(ps -o ppid= -p $PPID)", marks=WITH_RAY),
    ],
)
def test_killed_worker_loses_nothing(engine: str, victim: str, ground: Ground) -> None:
    seen = ground.tmp_path / "seen"
    dying = f"echo x > half; [ -e {seen} ] || {{ touch {seen}; kill -9 {victim}; }}; ls"
    replies = [{"calls": [{"bash": {"command": dying}}]}, "Survived."]
    ground.tasks(ground.task("a", replies, mode="auto"), ground.task("b", ["Done."]))
    ran = ground.run("--sandbox", "off", "--engine", engine)
    assert ran.code == 0
    assert "a: worker killed by SIGKILL; its changes are discarded\n" in ran.err
    results = {it["id"]: (it["answer"], it["attempts"]) for it in ground.report["results"]}
    assert results == {"a": ("Survived.", 2), "b": ("Done.", 1)}


def test_worker_that_always_dies_is_a_failed_task(ground: Ground) -> None:
    replies = [{"calls": [{"bash": {"command": "kill -9 $PPID"}}]}]
    ground.tasks(ground.task("a", replies, mode="auto"), ground.task("b", ["Done."]))
    ran = ground.run("--sandbox", "off")
    assert ran.code == 1
    failed, done = ground.report["results"]
    assert (failed["status"], failed["error"]["message"], failed["attempts"]) == (
        "error",
        "killed by SIGKILL, 3 times",
        3,
    )
    assert done["status"] == "ok"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_stopped_batch_goes_on_where_it_was(
    number: signal.Signals, engine: str, ground: Ground
) -> None:
    slow = ground.tmp_path / "slow"
    slow.touch()
    waits = f"while [ -e {slow} ]; do sleep 0.05; done"
    ground.tasks(
        ground.task("a", ["Done."]),
        ground.task("b", [{"calls": [{"bash": {"command": waits}}]}, "Done."], mode="auto"),
        ground.task("c", ["Done."]),
    )
    options = ("--sandbox", "off", "--workers", "1", "--engine", engine)
    batch = ground.begun(*options, is_killed=number is signal.SIGKILL)
    assert batch.stderr is not None
    assert batch.stderr.readline().startswith("[1/3] ok     a")
    batch.send_signal(number)
    out, _ = batch.communicate(timeout=60)
    slow.unlink()
    if number is signal.SIGKILL:
        assert batch.returncode == -9
    else:
        assert (batch.returncode, out) == (
            128 + number,
            f"1 of 3 succeeded, 2 not run: {ground.out / 'report.md'}\n",
        )
        assert ground.report["not_run"] == ["b", "c"]
    kept = json.loads((ground.out / "tasks" / "a" / "done.json").read_text())["session"]
    ran = ground.run("--sandbox", "off")
    assert (ran.code, ground.sessions()["a"], ground.report["ok"]) == (0, kept, 3)
    assert "1 of 3 tasks are already done\n" in ran.err


def refuse(wait: str) -> Reply:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    return Reply(status=429, headers={"retry-after": wait}, body=json.dumps(body).encode())


def test_rate_limit_uses_no_task_up_and_holds_all_workers_back(ground: Ground) -> None:
    ground.tasks({"id": "a", "prompt": "one"}, {"id": "b", "prompt": "two"})
    with Provider([refuse("2"), anthropic.says("A."), anthropic.says("B.")]) as provider:
        ran = ground.run(
            *("--model", "opus", "--workers", "1"),
            env={
                "ANTHROPIC_API_KEY": "sk-test-0123456789",
                "ANTHROPIC_BASE_URL": provider.base_url,
                "AGENTCLI_MAX_WAIT": "1",  # the run itself waits for no 2 seconds
            },
        )
    assert ran.code == 0
    assert "a: rate limited; no task starts for 2." in ran.err
    results = [(one["id"], one["answer"], one["attempts"]) for one in ground.report["results"]]
    assert results == [("a", "A.", 2), ("b", "B.", 1)]


@contextmanager
def open_store(kind: str, tmp_path: Path) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Yield the URL of an empty store, the variables it needs, and its files."""
    fsspec = pytest.importorskip("fsspec")
    if kind == "file":
        yield f"file://{tmp_path}/store", {}, fsspec.filesystem("file")
        return
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    env = {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_REGION": "us-east-1"}
    files = fsspec.filesystem("s3", key="k", secret="s", endpoint_url=env["AWS_ENDPOINT_URL"])
    files.mkdir("results")
    try:
        yield "s3://results/run", env, files
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_store_has_every_result_and_continues_without_the_directory(
    kind: str, ground: Ground
) -> None:
    with open_store(kind, ground.tmp_path) as (url, env, files):
        ground.with_git().tasks(ground.task("a", EDIT), ground.task("b", []))
        assert ground.run("--store", url, env=env).code != 0
        first = ground.sessions()
        names = {path.split("/tasks/")[1] for path in files.find(f"{url}/tasks")}
        assert {"a/done.json", "a/log.jsonl", "a/patch.diff", "b/done.json"} <= names
        assert json.loads(files.cat_file(f"{url}/report.json")) == ground.report

        shutil.rmtree(ground.out)  # as on another machine
        script(ground.tmp_path / "b.json", ["Now."])
        again = ground.run("--store", url, "--retry-failed", env=env)
        assert (again.code, ground.report["ok"]) == (0, 2)
        assert "1 of 2 tasks are already done\n" in again.err
        assert ground.sessions()["a"] == first["a"] != ground.sessions()["b"]
        assert (ground.out / "tasks" / "a" / "patch.diff").is_file()

        files.invalidate_cache()
        files.rm_file(f"{url}/tasks/b/done.json")  # as if stopped before it was stored
        assert ground.run("--store", url, env=env).code == 0
        stored = json.loads(files.cat_file(f"{url}/tasks/b/done.json"))
        assert stored["session"] == ground.sessions()["b"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("zz://nowhere", "error: the store zz://nowhere failed: Protocol not known: zz\n"),
        ("file:///dev/null/x", "error: the store file:///dev/null/x failed: [Errno 20]"),
    ],
)
def test_store_that_cannot_be_used_is_named(url: str, message: str, ground: Ground) -> None:
    pytest.importorskip("fsspec")
    ground.tasks(ground.task("a", ["Done."]))
    ran = ground.run("--store", url)
    assert ran.code == 3
    assert message in ran.err
    assert "  fix: name a store that you can use: --store s3://" in ran.err
    assert not list(ground.home.glob(".local/state/agentcli/sessions/*"))


def test_predictions_that_cannot_be_written_are_refused_before_any_task(ground: Ground) -> None:
    ground.with_git().tasks(ground.task("a", EDIT))
    ran = ground.run("--predictions", "/nope/x.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: cannot write /nope/x.jsonl: No such file or directory\n")
    assert not ground.out.exists()


def test_predictions_that_a_disk_does_not_take_leave_the_report(ground: Ground) -> None:
    ground.with_git().tasks(ground.task("a", EDIT))
    ran = ground.run("--predictions", "/dev/full")
    assert ran.code == 3
    assert ran.out.startswith("1 of 1 succeeded: ")
    assert "error: cannot write /dev/full: No space left on device" in ran.err


@WITH_RAY
def test_ray_cluster_that_nobody_runs_is_named(ground: Ground) -> None:
    ground.tasks({"id": "a", "prompt": "one"})
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ran = ground.run("--engine", "ray", env={"RAY_ADDRESS": address})
    assert ran.code == 3
    assert ran.err.startswith(f"error: cannot reach the Ray cluster at {address} (RAY_ADDRESS): ")
    assert f"fix: ray status --address {address}" in ran.err


def test_two_batches_do_not_write_to_one_place(ground: Ground) -> None:
    slow = ground.tmp_path / "slow"
    slow.touch()
    waits = f"while [ -e {slow} ]; do sleep 0.05; done"
    ground.tasks(
        ground.task("a", ["Done."]),
        ground.task("b", [{"calls": [{"bash": {"command": waits}}]}, "Done."], mode="auto"),
    )
    first = ground.begun("--sandbox", "off", "--workers", "1")
    assert first.stderr is not None
    first.stderr.readline()
    second = ground.run()
    slow.unlink()
    first.communicate(timeout=60)
    assert (first.returncode, second.code) == (0, 3)
    assert second.err.startswith(f"error: another batch is writing to {ground.out}\n")


def test_task_works_in_a_copy_of_its_own_workspace(ground: Ground) -> None:
    other = ground.tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("two\n")
    ground.tasks(ground.task("there", EDIT, workspace="other"), ground.task("here", EDIT))
    assert ground.run("--keep").code == 0
    there, here = (Path(result["tree"]) for result in ground.report["results"])
    assert sorted(path.name for path in there.iterdir()) == ["b.txt", "made.txt"]
    assert sorted(path.name for path in here.iterdir()) == ["a.txt", "made.txt"]
    assert [path.name for path in other.iterdir()] == ["b.txt"]
