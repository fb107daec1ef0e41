from pathlib import Path

from agentcli.sandbox.environment import build_environment
from agentcli.sandbox.paths import find_tool_variables, find_toolchains


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def find(base: Path, search_path: str = "") -> set[str]:
    (base / "ws").mkdir(exist_ok=True)
    found = find_toolchains(search_path, home=base / "home", workspace=base / "ws")
    return {str(path.relative_to(base)) for path in found if path.is_relative_to(base)}


def test_version_managers_in_the_home_directory_are_found(tmp_path: Path) -> None:
    for name in (".pyenv/versions", ".nvm/versions", ".rustup", ".ssh", "projects"):
        (tmp_path / "home" / name).mkdir(parents=True)
    assert find(tmp_path) == {"home/.pyenv", "home/.nvm", "home/.rustup"}


def test_credentials_beside_a_tool_are_not_shown(tmp_path: Path) -> None:
    program(tmp_path / "home/.cargo/bin/cargo")
    (tmp_path / "home/.cargo/credentials.toml").write_text("token")
    assert find(tmp_path, f"{tmp_path}/home/.cargo/bin") == {"home/.cargo/bin"}


def test_prefix_of_a_program_directory_is_shown_without_what_else_is_there(tmp_path: Path) -> None:
    program(tmp_path / "opt/tool/bin/tool")
    for name in ("lib", "share", "data", ".git"):
        (tmp_path / "opt/tool" / name).mkdir()
    (tmp_path / "opt/tool/.env").write_text("secret")
    assert find(tmp_path, f"{tmp_path}/opt/tool/bin") == {
        "opt/tool/bin",
        "opt/tool/lib",
        "opt/tool/share",
    }


def test_home_directory_is_not_a_prefix(tmp_path: Path) -> None:
    program(tmp_path / "home/bin/mine")
    (tmp_path / "home/lib").mkdir()
    (tmp_path / "home/share").mkdir()
    assert find(tmp_path, f"{tmp_path}/home/bin") == {"home/bin"}


def test_programs_linked_from_elsewhere_bring_their_installation(tmp_path: Path) -> None:
    program(tmp_path / "apps/black/bin/black")
    (tmp_path / "apps/black/lib").mkdir()
    (tmp_path / "home/.local/bin").mkdir(parents=True)
    (tmp_path / "home/.local/bin/black").symlink_to(tmp_path / "apps/black/bin/black")
    (tmp_path / "home/.local/bin/key").symlink_to(tmp_path / "home/.ssh/id")
    assert find(tmp_path, f"{tmp_path}/home/.local/bin") == {
        "home/.local/bin",
        "apps/black/bin",
        "apps/black/lib",
    }


def test_linked_directories_are_shown_under_both_names(tmp_path: Path) -> None:
    program(tmp_path / "disk/nvm/node")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.nvm").symlink_to(tmp_path / "disk/nvm")
    assert find(tmp_path) == {"home/.nvm", "disk/nvm"}


def test_workspace_and_relative_entries_bring_nothing(tmp_path: Path) -> None:
    program(tmp_path / "ws/bin/evil")
    (tmp_path / "ws/lib").mkdir()
    assert find(tmp_path, f"{tmp_path}/ws/bin:.:bin::ws/bin") == set()


def test_python_of_a_virtual_environment_is_shown_if_it_is_one(tmp_path: Path) -> None:
    real = program(tmp_path / "pythons/3.12/bin/python3.12")
    (tmp_path / "pythons/3.12/lib/python3.12").mkdir(parents=True)
    (tmp_path / "pythons/3.12/lib/python3.12/os.py").touch()
    false = program(tmp_path / "home/documents/bin/python")
    for name, target in (("good", real), ("evil", false)):
        environment = tmp_path / "ws" / name
        (environment / "bin").mkdir(parents=True)
        (environment / "pyvenv.cfg").touch()
        (environment / "bin/python").symlink_to(target)
    assert find(tmp_path) == {"pythons/3.12/bin", "pythons/3.12/lib"}


def test_tools_are_told_where_they_are(tmp_path: Path) -> None:
    (tmp_path / ".rustup").mkdir()
    (tmp_path / "cargo").mkdir()
    homes = (tmp_path / "elsewhere", tmp_path)
    variables = find_tool_variables(
        homes, {"CARGO_HOME": f"{tmp_path}/cargo", "GOMODCACHE": "/none"}
    )
    assert variables == {"RUSTUP_HOME": f"{tmp_path}/.rustup"}


def test_caches_of_tools_are_not_the_users_own_but_what_go_fetched_is_found(
    tmp_path: Path,
) -> None:
    (tmp_path / ".cargo/registry").mkdir(parents=True)
    fetched = tmp_path / "go/pkg/mod/cache/download"
    fetched.mkdir(parents=True)
    assert find_tool_variables((tmp_path,), {}) == {
        "GOPROXY": f"file://{fetched},https://proxy.golang.org,direct"
    }
    passed = build_environment({"CARGO_HOME": "/usr/local/cargo"}, workspace=tmp_path)
    assert "CARGO_HOME" not in passed


def test_version_manager_of_another_home_is_found_by_its_programs(tmp_path: Path) -> None:
    program(tmp_path / "other/.pyenv/shims/python")
    (tmp_path / "other/.pyenv/versions").mkdir()
    (tmp_path / "other/.rustup").mkdir()
    (tmp_path / "other/.ssh").mkdir()
    assert find(tmp_path, f"{tmp_path}/other/.pyenv/shims") == {
        "other/.pyenv",
        "other/.pyenv/shims",
        "other/.rustup",
    }
