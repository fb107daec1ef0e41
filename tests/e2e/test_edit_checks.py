from pathlib import Path

from tests.support.program import agentcli, script


def test_model_and_user_read_what_an_edit_broke(home: Path, workspace: Path) -> None:
    settings = home / ".config" / "agentcli" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[checks]\n"*.txt" = "grep -Hn BAD *.txt && exit 1 || exit 0"\n')
    (workspace / "old.txt").write_text("BAD already\n")
    calls = [
        {"write_file": {"path": "a.py", "content": "def f(:\n"}},
        {"write_file": {"path": "new.txt", "content": "fine\nBAD now\n"}},
    ]
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done.", "Done."])
    options = ("--mode", "auto-edit", "--sandbox", "off", "-o", "stream-json")
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert ran.code == 0, ran.err
    first, second = [event for event in ran.events if event["type"] == "tool.finished"]
    assert first["status"] == second["status"] == "ok"
    assert "New errors after this edit:\na.py: line 1: invalid syntax" in first["model_text"]
    assert second["model_text"].endswith("New errors after this edit:\nnew.txt:2:BAD now")
