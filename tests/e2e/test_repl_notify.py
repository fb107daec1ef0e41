from pathlib import Path

import pytest

from tests.support.repl import live, runs, says

SEQUENCES = {
    "xterm-256color": b"\x1b]9;agentcli: ",
    "foot": b"\x1b]777;notify;agentcli;",
    "xterm-kitty": b"\x1b]99;;agentcli: ",
}


@pytest.mark.parametrize("term", SEQUENCES)
def test_desktop_is_notified_in_the_words_of_the_terminal(tmp_path: Path, term: str) -> None:
    env = {"AGENTCLI_NOTIFY": "desktop", "TERM": term}
    with live(tmp_path, [runs("touch new"), says("Done.")], env=env) as session:
        session.term.ready()
        session.term.send("go")
        session.term.wait("needs approval")
        raw = session.term.raw()
        assert [name for name, start in SEQUENCES.items() if start in raw] == [term]
        assert b"\x1b]2;" in raw  # the title says it, too
        session.term.type("y")
        session.term.wait("Done.")
