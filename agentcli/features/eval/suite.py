"""A suite: a folder with a TOML file for each task. A wrong file affects only that task.

A task has a prompt, the files it begins with, and a check that the model never sees. It may bring a
solution and a wrong solution, so that the check itself can be checked.
"""

import hashlib
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agentcli.system.files import expand_home
from agentcli.system.validation import describe_fault
from agentcli.types.errors import UsageError

SHIPPED = Path(__file__).with_name("suites")

FileSet: TypeAlias = Mapping[str, str] | Path
"""Files by their relative paths, or a folder of them."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")


def _check_paths(files: dict[str, str] | str) -> dict[str, str] | str:
    for name in files if isinstance(files, dict) else ():
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{name!r} is not a path below the task's directory")
    return files


_Files = Annotated[dict[str, str] | str, AfterValidator(_check_paths)]
_Command = Annotated[str, Field(pattern=r"\S")]
_Seconds = Annotated[float, Field(gt=0)]


class _TaskDeclaration(BaseModel):
    """The content of a task's file."""

    model_config = ConfigDict(extra="forbid")

    prompt: _Command
    check: _Command
    language: str = ""
    needs: list[str] = []
    tree: _Files = {}
    repository: str = ""
    commit: str = "HEAD"
    setup: str = ""
    hidden: _Files = {}
    solution: _Files = {}
    wrong: _Files = {}
    timeout_s: _Seconds = 600.0
    check_timeout_s: _Seconds = 60.0
    max_turns: Annotated[int, Field(gt=0)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTask:
    id: str
    prompt: str
    check: str
    """The command that decides. `$CHECK` is the directory of the hidden files."""
    language: str
    needs: tuple[str, ...]
    """Programs without which the task is skipped."""
    tree: FileSet
    repository: Path | None
    """A git repository to begin with, instead of the tree."""
    commit: str
    setup: str
    """A command that prepares the tree, before the model sees it."""
    hidden: FileSet
    solution: FileSet
    wrong: FileSet
    timeout_s: float
    check_timeout_s: float
    limits: Mapping[str, float]
    """Limits for the agent, by their names as options of a batch."""
    fingerprint: str
    """A hash of the task and its files: a task that was changed is another task."""

    @property
    def key(self) -> str:
        """A name for directories, which changes with the task."""
        return f"{self.id}-{self.fingerprint[:8]}"

    def find_missing_program(self) -> str:
        return next((name for name in self.needs if shutil.which(name) is None), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    name: str
    path: Path
    tasks: tuple[SuiteTask, ...]
    skipped: Mapping[str, str]
    """Why tasks are skipped, by their ids."""
    invalid: Mapping[str, str]
    """What is wrong with tasks that cannot be read, by their ids."""


def find_suite(named: str) -> Path:
    """Return the folder of a suite, one of ours if there is no such folder. Raise UsageError."""
    path = Path(named)
    if path.is_dir():
        return Path(os.path.realpath(path))
    shipped = sorted(one.name for one in SHIPPED.iterdir() if one.is_dir())
    if named in shipped:
        return SHIPPED / named
    raise UsageError(
        f"there is no suite {named}", hint=f"name a folder of tasks, or one of {', '.join(shipped)}"
    )


def read_suite(path: Path, *, only: Sequence[str] = ()) -> Suite:
    """Read the tasks, or only those with these ids. Raise UsageError if there is none."""
    files = {one.stem: one for one in sorted(path.glob("*.toml"))}
    if unknown := [name for name in only if name not in files]:
        known = ", ".join(files) or "none"
        raise UsageError(f"{path} has no task {unknown[0]}", hint=f"the tasks are {known}")
    if not files:
        raise UsageError(f"{path} has no tasks", hint="write one as docs/guides/eval.md shows")
    tasks: list[SuiteTask] = []
    skipped: dict[str, str] = {}
    invalid: dict[str, str] = {}
    for name, file in files.items():
        if only and name not in only:
            continue
        try:
            task = _read_task(name, file)
        except ValueError as error:
            invalid[name] = str(error)
            continue
        if missing := task.find_missing_program():
            skipped[name] = f"needs {missing}, which is not installed"
        else:
            tasks.append(task)
    return Suite(name=path.name, path=path, tasks=tuple(tasks), skipped=skipped, invalid=invalid)


def _read_task(name: str, file: Path) -> SuiteTask:
    """Read a task. Raise ValueError that says what is wrong."""
    if not _ID.fullmatch(name):
        raise ValueError("its name must have letters, digits, - and _ only")
    if file.exists() and not file.is_file():
        raise ValueError("it is not a regular file")
    try:
        data = file.read_bytes()
        given = _TaskDeclaration.model_validate(tomllib.loads(data.decode("utf-8-sig")))
    except OSError as error:
        raise ValueError(f"cannot read {file.name}: {error.strerror}") from None
    except ValidationError as error:
        raise ValueError(describe_fault(error)) from None
    except ValueError as error:
        raise ValueError(f"not TOML: {error}") from None
    digest = hashlib.sha256(data)
    kinds = ("tree", "hidden", "solution", "wrong")
    files = {kind: _locate(getattr(given, kind), file.parent) for kind in kinds}
    for kind in kinds:
        _add_folder(digest, files[kind])
    limits = {key: getattr(given, key) for key in ("max_turns", "max_cost", "max_tokens")}
    return SuiteTask(
        id=name,
        prompt=given.prompt,
        check=given.check,
        language=given.language,
        needs=tuple(given.needs),
        tree=files["tree"],
        repository=_find_repository(given.repository, file.parent),
        commit=given.commit,
        setup=given.setup,
        hidden=files["hidden"],
        solution=files["solution"],
        wrong=files["wrong"],
        timeout_s=given.timeout_s,
        check_timeout_s=given.check_timeout_s,
        limits={key: value for key, value in limits.items() if value is not None},
        fingerprint=digest.hexdigest(),
    )


def _locate(files: dict[str, str] | str, beside: Path) -> FileSet:
    if isinstance(files, dict):
        return files
    folder = beside / files
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return folder


def _find_repository(named: str, beside: Path) -> Path | None:
    if not named:
        return None
    path = Path(os.path.realpath(beside / expand_home(named)))
    if not path.is_dir():
        raise ValueError(f"there is no repository {path}")
    return path


def _add_folder(digest: "hashlib._Hash", files: FileSet) -> None:
    """Add the content of a folder to the hash. Files in the task itself are in it already."""
    if not isinstance(files, Path):
        return
    try:
        for path in sorted(one for one in files.rglob("*") if one.is_file()):
            digest.update(f"{path.relative_to(files)}\0".encode("utf-8", "surrogateescape"))
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError as error:
        raise ValueError(f"cannot read {error.filename}: {error.strerror}") from None


def list_files(files: FileSet) -> dict[str, str]:
    """Return the files of a set, by their relative paths. Raise ValueError if one is no text."""
    if not isinstance(files, Path):
        return dict(files)
    found = {one.relative_to(files).as_posix(): one for one in sorted(files.rglob("*"))}
    try:
        return {
            name: one.read_text(encoding="utf-8") for name, one in found.items() if one.is_file()
        }
    except UnicodeDecodeError:
        raise ValueError(f"{files} has files that are no text, which --play cannot write") from None


def write_files(files: FileSet, directory: Path) -> None:
    """Write the files below a directory, which need not exist. Raise OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    if isinstance(files, Path):
        shutil.copytree(files, directory, symlinks=True, dirs_exist_ok=True)
        return
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
