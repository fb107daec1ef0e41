from pathlib import Path

from tests.support.repl import live, says


def test_aside_leaves_no_trace_in_the_conversation(tmp_path: Path) -> None:
    script = [says("Hello."), says("It is **blue**."), says("Bye.")]
    with live(tmp_path, script) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("Hello.")
        term.send("/btw which colour?")
        term.wait("It is blue.")
        term.wait("the conversation does not have it")
        term.send("/btw")
        term.wait("Usage: /btw QUESTION")
        term.send("bye")
        term.wait("Bye.")
        first, aside, last = session.model.bodies
        assert "which colour?" in str(aside["messages"])
        assert aside["tool_choice"] == {"type": "none"}
        assert len(aside["messages"]) == len(first["messages"]) + 2
        assert "colour" not in str(last["messages"])
        assert "blue" not in str(last["messages"])
        term.send("/cost")
        term.wait("asides")


def test_summary_keeps_what_the_user_names(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hello."), says("A summary.")]) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("Hello.")
        term.send("/compact the names of all files")
        term.wait("Compacted")
        asked = str(session.model.bodies[1]["messages"][-1])
        assert "The user asks to keep above all:\\nthe names of all files" in asked
