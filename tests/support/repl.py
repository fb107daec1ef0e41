"""A live session on a loopback model, in a project of its own."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.support import anthropic_streams as anthropic
from tests.support.provider import Provider, Reply, Script, answer, sse, stream
from tests.support.terminal import PyteTerm, Term, TmuxTerm

KEY = "sk-test-0123456789"
MODEL = "opus"

T = TypeVar("T", bound=Term)


@dataclass(frozen=True, slots=True)
class Live(Generic[T]):
    term: T
    model: Provider
    home: Path
    project: Path

    def prompts(self) -> list[str]:
        """What was said last, request by request, but for what the runtime says, in brackets."""
        return [
            [text for text in map(_text, body["messages"]) if not text.startswith("[")][-1]
            for body in self.model.bodies
        ]


def live(tmp_path: Path, script: Script, **more: Any) -> "AbstractContextManager[Live[PyteTerm]]":
    return _live(PyteTerm, tmp_path, script, **more)


def live_in_tmux(
    tmp_path: Path, script: Script, **more: Any
) -> "AbstractContextManager[Live[TmuxTerm]]":
    return _live(TmuxTerm, tmp_path, script, **more)


@contextmanager
def _live(
    backend: Callable[..., T],
    tmp_path: Path,
    script: Script,
    *,
    arguments: Sequence[str] = (),
    files: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    **more: Any,
) -> Iterator[Live[T]]:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with Provider(script) as model:
        variables = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.base_url, **(env or {})}
        term = backend(
            ["--model", MODEL, *arguments], home=home, cwd=project, env=variables, **more
        )
        try:
            yield Live(term, model, home, project)
        finally:
            term.close()


def paced(text: str, *, tokens_per_s: float, token: int = 4) -> Reply:
    """The text written at a model's pace."""
    pieces = [text[at : at + token] for at in range(0, len(text), token)]
    events = anthropic.events([anthropic.text(*pieces)])
    one = sse(events[3:4])
    return stream(sse(events)).but(chunk_bytes=len(one), pause_s=1 / tokens_per_s)


def runs(command: str, call_id: str = "toolu_1", **more: Any) -> Reply:
    return anthropic.calls(anthropic.call(call_id, "bash", {"command": command, **more}))


def says(text: str) -> Reply:
    return anthropic.says(text)


def fails(status: int, **headers: str) -> Reply:
    """In the provider's own words."""
    kind = "rate_limit_error" if status == 429 else "authentication_error"
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    return answer(body, status=status, headers=headers)


def git(project: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)


def open_question(term: Term) -> None:
    """It waits for the message just typed, or is there already, where that took long."""
    term.wait_for(
        lambda: term.shows("tab to answer") or term.shows("[n] no"), "there is a question"
    )
    if term.shows("tab to answer"):
        term.key("tab")


def answer_question(term: Term, letter: str) -> None:
    await_question(term)
    term.type(letter)


def await_question(term: Term) -> None:
    """The question is there and its grace is over: seen several times, as a frame may be halved."""
    seen = 0

    def is_open() -> bool:
        nonlocal seen
        is_there = term.shows("[n] no") and not term.shows("keys go to your message")
        seen = seen + 1 if is_there else 0
        return seen >= 5

    term.wait_for(is_open, "the question takes keys")


def _text(message: Any) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)
