"""What holds for every test: signals as usual, its speed, and layers only where they work.

A shell that starts a job in the background, and nohup, make it ignore some signals, and that is
inherited.
"""

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import examples, speed
from tests.support.layers import depends_on_layer, explain_missing, list_needed
from tests.support.record import judge_both

signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGHUP", "SIGQUIT"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)

# Starting hundreds of times without bytecode is most of the time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("AGENTCLI_SANDBOX", None)  # the program that is tested gets it from here

# A `python3` of a version manager is a shell script, which takes longer than the interpreter.
own_programs = str(Path(sys.base_prefix, "bin"))
if not os.environ["PATH"].startswith(own_programs):
    os.environ["PATH"] = os.pathsep.join((own_programs, os.environ["PATH"]))

gc.disable()  # until all tests are collected: everything that is made so far stays
settings.load_profile(examples.EVERY_RUN)
guard = speed.Guard()
MOST_WORKERS = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return a worker for each core, and four if tests also wait for processes and terminals."""
    cores = os.cpu_count() or 1
    return cores if config.getoption("-m") == "quick" else min(4 * cores, MOST_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = set(speed.list_quick(items))
    for item in items:
        if item in quick:
            item.add_marker("quick")
            continue
        item.add_marker(pytest.mark.flaky(reruns=1))
        if depends_on_layer(item):
            item.add_marker("sandbox")
    if "soak" not in config.getoption("-m"):
        config.hook.pytest_deselected(
            items=[one for one in items if one.get_closest_marker("soak")]
        )
        items[:] = [one for one in items if not one.get_closest_marker("soak")]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for layer in list_needed(item):
        if reason := explain_missing(layer):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a quick test that starts a process or listens."""
    if not item.get_closest_marker("quick"):
        return (yield)
    guard.watch()
    try:
        return (yield)
    finally:
        guard.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, by reason, and which ones had to run twice, and why."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_line(f"run again: {report.nodeid}\n{report.longreprtext}")
    skipped = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())]
    for reason, number in Counter(skipped).most_common():
        terminalreporter.write_line(f"{number:5} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace beside the home."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    return workspace


@pytest.fixture
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, state and cache of the test alone, and no keyring, for code that runs here."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


@pytest.fixture
def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the program have no sandbox: to make one is half of a short run.

    For files that are not about what commands may reach. All others have what users have."""
    monkeypatch.setenv("AGENTCLI_SANDBOX", "off")


@pytest.fixture
def verified_logs(tmp_path: Path) -> Iterator[None]:
    """Verify every log that the test leaves, by the program and by the page on the format."""
    yield
    for log in tmp_path.rglob("sessions/*/log.jsonl"):
        ours, of_page = judge_both(log)
        assert of_page == ours, log
