import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 65534
PACKAGES = Path(pytest.__file__).parent.parent


def as_nobody(home: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return subprocess.run(
        ["setpriv", *user, *argv],
        cwd=ROOT,
        env={
            "HOME": home,
            "TMPDIR": home,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT}:{PACKAGES}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
    )


def usable_python(home: str) -> str | None:
    """An interpreter that everybody may run, and that finds what the tests need."""
    usual: Sequence[str] = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    version = tuple(sys.version_info[:2])  # compiled packages are of one version
    check = f"import sys; assert sys.version_info[:2] == {version}; import pytest, agentcli, tests"
    for python in usual:
        if as_nobody(home, python, "-c", check).returncode == 0:
            return python
    return None


@pytest.mark.timeout(300)  # it runs four files of tests
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_attacks_fail_for_an_ordinary_user_too() -> None:
    with TemporaryDirectory(prefix="agentcli-test-", dir="/tmp") as home:
        os.chown(home, NOBODY, NOBODY)
        python = usable_python(home)
        if python is None:
            pytest.skip("no Python that another user could run the tests with")
        ran = as_nobody(
            home,
            *(python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("--basetemp", f"{home}/base"),
            # An ordinary user uses the same programs in test_everyday.
            *("-k", "not usual_programs"),
            *("tests/e2e/test_sandbox_attacks.py", "tests/e2e/test_sandbox_sockets.py"),
            *("tests/e2e/test_sandbox_kept_mounts.py", "tests/e2e/test_sandbox_grants.py"),
            "tests/e2e/test_sandbox_put_back.py::test_repository_that_cannot_be_written_does_not_matter",
        )
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
