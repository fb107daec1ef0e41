import os
from pathlib import Path

import pytest

from agentcli.system.output import BoundedOutput
from agentcli.system.process import ProcessEnd
from agentcli.tools.report import report_command, report_interrupted
from agentcli.types.tools import Command, ErrorKind
from tests.support.bash import text

ENDED = ProcessEnd(returncode=0, timed_out=False, duration_s=1.5, left_running=())


@pytest.mark.parametrize(
    ("ended", "last_line", "error"),
    [
        ((0, False), "[exit code 0]", None),
        ((1, False), "[exit code 1]", None),
        ((141, False), "[exit code 141]", None),
        ((139, False), "[killed by SIGSEGV]", ErrorKind.FAILED),
        ((-9, False), "[killed by SIGKILL]", ErrorKind.FAILED),
        (
            (-15, True),
            "[timed out after 7 s, killed; raise timeout or use background=true]",
            ErrorKind.TIMEOUT,
        ),
        (
            (0, True),
            "[timed out after 7 s, killed; raise timeout or use background=true]",
            ErrorKind.TIMEOUT,
        ),
    ],
)
def test_last_line_says_how_it_ended(
    ended: tuple[int, bool], last_line: str, error: ErrorKind | None
) -> None:
    returncode, timed_out = ended
    output = report_command(
        "make",
        ProcessEnd(returncode=returncode, timed_out=timed_out, duration_s=1.5, left_running=()),
        output=BoundedOutput(Path("1.log"), -1),
        cwd=Path("/w"),
        timeout_s=7,
        notes=("[a note]",),
    )
    assert (text(output), output.error) == (f"[no output]\n[a note]\n{last_line}", error)


def test_log_that_is_not_whole_is_said() -> None:
    kept = BoundedOutput(Path("/out/1.log"), os.open("/dev/full", os.O_WRONLY))
    kept.feed(b"printed\n")
    kept.close()
    output = report_command("make", ENDED, output=kept, cwd=Path("/w"), timeout_s=7, notes=())
    assert text(output) == (
        "printed\n[the log is not whole: No space left on device]\n[exit code 0]"
    )
    assert isinstance(output.details, Command)
    assert (output.details.output_bytes, output.details.stored_bytes) == (8, 0)
    stopped = report_interrupted("make", output=kept, cwd=Path("/w"), ran_s=2)
    assert text(stopped).endswith("\n[interrupted after 2.0 s, 8 bytes until then]")
