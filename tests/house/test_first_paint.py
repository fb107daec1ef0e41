import json
import subprocess
import sys
from pathlib import Path

from tests.house.test_startup import HEAVY
from tests.support.program import environment

PROBE = """
import json, sys
import agentcli.session.secrets, agentcli.session.project, agentcli.cli.interactive
import agentcli.ui.repl.launch, agentcli.providers.catalog
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_first_paint_of_a_session_needs_prompt_toolkit_alone(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, env=environment(tmp_path)
    )
    assert HEAVY & set(json.loads(ran.stdout)) == {"asyncio", "prompt_toolkit"}
