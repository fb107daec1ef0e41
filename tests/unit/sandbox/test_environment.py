from pathlib import Path

from agentcli.sandbox.environment import build_environment, clean_path


def test_only_named_variables_are_passed(tmp_path: Path) -> None:
    environ = {
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "OPENAI_API_KEY": "key",
        "MY_SETTING": "x",
        "LD_PRELOAD": "x.so",
        "SSH_AUTH_SOCK": "/run/agent",
        "BASH_ENV": "x",
        "WSL_INTEROP": "x",
        "HOME": "/home/person",
        "PATH": "/usr/bin",
    }
    assert build_environment(environ, workspace=tmp_path) == {
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "PATH": "/usr/bin",
        "HUSKY": "0",
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def test_variables_that_the_person_names_are_passed(tmp_path: Path) -> None:
    environ = {"MY_TOKEN": "t", "OTHER_TOKEN": "o", "HUSKY": "1", "PATH": "/bin"}
    passed = build_environment(environ, workspace=tmp_path, pass_env=("MY_TOKEN", "HUSKY"))
    assert (passed["MY_TOKEN"], passed["HUSKY"], "OTHER_TOKEN" in passed) == ("t", "1", False)


def test_programs_are_not_found_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "ws/bin").mkdir(parents=True)
    (tmp_path / "ws-other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ws/bin")
    entries = ["/usr/bin", "", ".", "bin", "node_modules/.bin", f"{tmp_path}/ws/bin"]
    entries += [f"{tmp_path}/link", f"{tmp_path}/ws-other", "/usr/bin", "/bin"]
    entries += [f"{tmp_path}/not-there-yet"]
    path = clean_path({"PATH": ":".join(entries)}, tmp_path / "ws")
    assert path == f"/usr/bin:{tmp_path}/ws-other:/bin"


def test_activated_environment_in_the_workspace_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    environ = {
        "PATH": f"{tmp_path}/.venv/bin:{tmp_path}/bin:/bin",
        "VIRTUAL_ENV": f"{tmp_path}/.venv",
    }
    assert clean_path(environ, tmp_path) == f"{tmp_path}/.venv/bin:/bin"


def test_empty_path_becomes_the_usual_one(tmp_path: Path) -> None:
    assert clean_path({}, tmp_path) == "/usr/local/bin:/usr/bin:/bin"
