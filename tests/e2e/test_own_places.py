from pathlib import Path

import pytest

from tests.support.confined import LAYERS
from tests.support.program import Ran, agentcli, script, session_log

SETTINGS = 'mode = "auto"\n'
RULES = '[[rule]]\ndecision = "deny"\nrule = "bash(git push:*)"\n'

ATTACKS = {
    "written over": "echo evil > {config}/agentcli/settings.toml; rm {config}/agentcli/rules.toml",
    "moved away": "mv {config} {config}-away",
    "moved and made anew": "mv {config} x; mkdir -p {config}/agentcli; "
    "echo evil > {config}/agentcli/settings.toml",
    "replaced by a link": "mkdir -p evil; echo evil > evil/settings.toml; "
    "rm -rf {config}/agentcli; ln -s $PWD/evil {config}/agentcli",
    "linked over": "echo evil > e; ln -f e {config}/agentcli/settings.toml",
    "removed with all of it": "rm -rf {config}",
    "renamed over": "echo evil > e; mv -f e {config}/agentcli/settings.toml",
}


def run(home: Path, layer: str, *calls: object) -> Ran:
    model = script(home.parent / "s.json", [{"calls": list(calls)}, "done"])
    return agentcli(
        *("run", "-C", home, "--mode", "auto", "--sandbox", layer, "--model", model, "x"),
        home=home,
    )


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_settings_in_the_workspace_stay_as_they_are(layer: str, attack: str, home: Path) -> None:
    config = home / ".config"
    (config / "agentcli").mkdir(parents=True)
    (config / "agentcli/settings.toml").write_text(SETTINGS)
    (config / "agentcli/rules.toml").write_text(RULES)

    run(home, layer, {"bash": {"command": ATTACKS[attack].format(config=config)}})

    found = {path.name: path.read_text() for path in (config / "agentcli").iterdir()}
    assert found == {"settings.toml": SETTINGS, "rules.toml": RULES}
    assert not (config / "agentcli").is_symlink()


@pytest.mark.parametrize("layer", LAYERS)
def test_missing_settings_and_trust_are_not_made(layer: str, home: Path) -> None:
    state = home / ".local/state/agentcli"
    command = (
        f"mkdir -p {home}/.config/agentcli {state}/trust; echo evil > {home}/.config/agentcli/"
        f"settings.toml; echo evil > {state}/trust/evil.json; touch {home}/beside"
    )
    run(home, layer, {"bash": {"command": command}})

    assert list((home / ".config/agentcli").iterdir()) == []
    assert list((state / "trust").iterdir()) == []
    assert (home / "beside").exists()


@pytest.mark.layer("bubblewrap")
def test_records_are_held_where_the_kernel_can(home: Path) -> None:
    sessions = home / ".local/state/agentcli/sessions"
    command = f"for log in {sessions}/*/log.jsonl; do echo evil-line >> $log; rm -f $log; done"
    ran = run(
        home,
        "bubblewrap",
        {"bash": {"command": f"{command}; rm -rf {home}/.local; mkdir sub; cd sub"}},
        {"bash": {"command": "pwd > ../where"}},
    )
    assert ran.code == 0
    assert (home / "where").read_text() == f"{home}/sub\n"
    assert session_log(home).read_text().splitlines()[-1].count("session_ended") == 1


@pytest.mark.parametrize("layer", LAYERS)
def test_file_tools_do_not_write_there_either(layer: str, home: Path) -> None:
    paths = (".config/agentcli/settings.toml", ".local/state/agentcli/trust/x", ".config/beside")
    run(home, layer, *({"write_file": {"path": path, "content": "evil\n"}} for path in paths))

    assert [path for path in paths if (home / path).exists()] == [".config/beside"]
