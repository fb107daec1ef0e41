"""Whatever is started to make a sandbox ends with the program, and never holds its key."""

import json
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.support import nursery
from tests.support.confined import LAYERS, confined
from tests.support.outcomes import KEY
from tests.support.processes import unique_seconds
from tests.support.program import environment, script

STARTS = range(2, 10)
"""After the start of which process; a run ends by itself before the last."""
DELAYS_S = (0.0005, 0.002, 0.005)
"""For each of those processes other moments of its own set-up."""


@pytest.mark.parametrize("layer", LAYERS)
def test_killed_at_any_moment_of_the_set_up_nothing_is_left_and_no_child_had_the_key(
    tmp_path: Path, layer: str
) -> None:
    with confined(layer, tmp_path / "probe"):
        pass  # or it is skipped, with the reason
    moments = list(zip(STARTS, cycle(DELAYS_S), strict=False))
    found = kept_alive(tmp_path, layer, moments)
    assert found["survivors"] == []
    assert [words for words, values in found["started"] if KEY in "".join(values)] == []
    assert any("bash" in " ".join(words) for words, _ in found["started"])


def kept_alive(home: Path, layer: str, moments: list[tuple[int, float]]) -> dict[str, Any]:
    workspace = home / "work"
    workspace.mkdir()
    calls = [{"bash": {"command": f"sleep {unique_seconds()}"}}]
    model = script(home / "script.json", [{"calls": calls}, "Done."])
    options = ("--mode", "auto", "--sandbox", layer, "--timeout", "1s")
    ran = subprocess.run(
        [
            *(sys.executable, nursery.__file__, json.dumps(moments)),
            *("run", "--model", model, *options, "go"),
        ],
        cwd=workspace,
        env=environment(home, ANTHROPIC_API_KEY=KEY),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
