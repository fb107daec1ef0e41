import subprocess
import sys

import pytest

from agentcli.sandbox import landlock_rules, watched_calls

FORBID = """
from agentcli.sandbox import kernel, seccomp, watched_calls
from agentcli.sandbox.seccomp import AF_INET, AF_UNIX, SyscallFilter
kernel.forbid_new_privileges()
listener = seccomp.restrict_thread(
    SyscallFilter(families=(AF_INET, AF_UNIX), sees_others=True, handed_over={handed_over})
)
print(listener is None, watched_calls.is_supported())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or landlock_rules.read_version() < landlock_rules.TCP_VERSION,
    reason="Landlock does not work here",
)
@pytest.mark.parametrize(("handed_over", "is_alone"), [((), True), (("listen",), False)])
def test_machine_that_forbids_a_call_or_supervises_itself_is_found_out(
    handed_over: tuple[str, ...], is_alone: bool
) -> None:
    program = FORBID.format(handed_over=handed_over)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if not is_alone and not watched_calls.is_supported():
        pytest.skip("this machine does not let us supervise calls")
    assert ran.stdout == f"{is_alone} False\n", ran.stderr
