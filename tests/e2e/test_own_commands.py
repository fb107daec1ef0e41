from pathlib import Path

from tests.support.repl import live, says


def test_commands_of_the_person_and_of_a_trusted_project(tmp_path: Path) -> None:
    own = tmp_path / "home/.config/agentcli/commands"
    own.mkdir(parents=True)
    (own / "greet.md").write_text("---\ndescription: Greets.\n---\nGreet $1 from $2.")
    (own / "help.md").write_text("Never.")
    files = {
        ".agentcli/commands/tidy.md": "# Tidy up\n\nTidy $ARGUMENTS.",
        ".agentcli/skills/release/SKILL.md": "---\ndescription: Releases.\n---\n",
        ".agentcli/skills/bad/SKILL.md": "",
    }
    arguments = ["--trust-project"]
    env = {"TERM": "dumb"}
    script = [says("Greeted."), says("Tidied.")]
    with live(tmp_path, script, files=files, arguments=arguments, env=env, rows=60) as session:
        term = session.term
        term.wait("warning: yours commands/help.md: a command /help already exists")
        term.send("/help")
        term.wait("/greet ARG1 ARG2: yours: Greets.")
        term.wait("/tidy [TEXT]: project: Tidy up")
        term.send("/skills")
        term.wait("/release [TEXT]: skill: Releases.")
        term.wait("Not used: yours commands/help.md")
        shown = "".join("".join(term.screen()).split())  # the terminal breaks rows anywhere
        assert "bad/SKILL.md:ithasneitheradescriptionnoratext" in shown
        term.send("/greet Ann")
        term.wait("/greet needs 2 arguments")
        term.send("/greet Ann 'New York'")
        term.wait("Greeted.")
        term.send("/tidy the desk")
        term.wait("Tidied.")
        said = [str(body["messages"]) for body in session.model.bodies]
        assert "Greet Ann from New York." in said[0]
        assert "Tidy the desk." in said[1]
