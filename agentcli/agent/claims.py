"""Claims of a final answer, checked against the record: commands, exit codes, file hashes.

Deterministic and cautious. Only plain statements of fact are checked, never plans, conditions or
negations. The verdict is `not_supported` only if the record allows no other reading. What a command
may have done unseen is `unknown`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from agentcli.types.events import CallFinished, CallJudged, Claim, ClaimVerdict, Fact, Verified
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import Command, Diff, Effect

HashFile: TypeAlias = Callable[[str], str | None]
"""Returns the current hash of a file in the workspace, or None if there is no such file. Raises
ValueError for a path that cannot be checked."""

CLAIMS_MAX = 40
READ_CHARS = 50_000
SENTENCE_CHARS = 600
"""The longest sentence that is checked; longer ones are not prose and could be slow to search."""
SHOWN_CHARS = 200

_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S))+[.!?]?")
_NOT_A_STATEMENT = re.compile(
    r"\?|\b(?:not|no|never|cannot|without|unless|if|whether|should|would|could|may|might|will|must"
    r"|can|need|needs|ensure|make sure|so that|to be|once|until|before|when|please|expect\w*"
    r"|assum\w*|try|plan\w*|previously|already|was failing|were failing)\b|n't\b|n’t\b",
    re.IGNORECASE,
)
_TESTS_PASS = re.compile(
    r"\btests?\b(?: \w+){0,4}? (?:pass|passes|passed|succeed|succeeds|succeeded|are green|is green)"
    r"\b|\btest suite\b(?: \w+){0,3}? (?:pass|passes|passed|is green)\b"
    r"|\b[1-9]\d* (?:tests? )?passed\b|\bpassing (?:all )?tests?\b",
    re.IGNORECASE,
)
_RAN = re.compile(
    r"(?:^|\b(?:I|we)(?:'ve|’ve| have)?(?: also| then| just)?\s)\W*"
    r"(?:ran|re-?ran|executed)\b[^`]{0,30}`([^`]+)`",
    re.IGNORECASE,
)
_SUCCESS = re.compile(
    r"\b(?:success\w*|passe[sd]|exit(?:ed|s)? (?:code )?0|clean)\b", re.IGNORECASE
)
_PATH = r"`?((?:[\w.@-]+/)*[\w@-]*\.?[\w@-]+\.\w{1,10}|(?:[\w.@-]+/)+[\w.@-]+)`?"
_FILE = re.compile(
    r"\b(created|added|wrote|changed|updated|modified|edited|deleted|removed)\b"
    rf"((?:\s+(?!and\b)[^\s`]+){{0,6}}?)\s+{_PATH}(?=[\s,.;:)]|$)",
    re.IGNORECASE,
)
_WITHIN = re.compile(r"\b(?:to|in|into|from|of|inside|at)\b", re.IGNORECASE)
_RUNNERS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|gotestsum)\b"
    r"|\b(?:npm|pnpm|yarn|bun|go|cargo|dotnet|mvn|gradle|gradlew|swift|mix|make|just|manage\.py|rake)"
    r"\s+(?:run\s+)?(?:\S+\s+)?(?:test|tests|check)\b"
)
_HIDES_THE_EXIT_CODE = re.compile(r"\|(?!\|)|\|\||;|(?<![&>\d])&(?!&)")
_SAID_FAILED = re.compile(r"\b[1-9]\d* (?:failed|failures?|errors?)\b|^FAILED\b", re.MULTILINE)

FileAct = Literal["created", "changed", "deleted"]
_ACTS: dict[str, FileAct] = {
    "created": "created",
    "added": "created",
    "wrote": "created",
    "deleted": "deleted",
    "removed": "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandRun:
    """A command that was run, by the model or as a check."""

    command: str
    exit_code: int | None
    output: str
    at: int


@dataclass(slots=True, kw_only=True)
class _TurnRecord:
    """The commands and file changes of one turn, collected from its facts."""

    runs: list[_CommandRun] = field(default_factory=list)
    diffs: dict[str, tuple[int, Diff]] = field(default_factory=dict)
    """The latest diff of each path, with the index of its fact."""
    created: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    last_change: int = -1
    unseen_changes: bool = False
    """True if a command ran that may have changed files."""


def check_claims(text: str, facts: Sequence[Fact], hash_file: HashFile) -> tuple[Claim, ...]:
    record = _collect_record(facts)
    claims: list[Claim] = []
    for sentence in _split_statements(text):
        claims += _find_claims(sentence, record, hash_file)
        if len(claims) >= CLAIMS_MAX:
            break
    return tuple(claims[:CLAIMS_MAX])


def _split_statements(text: str) -> Iterator[str]:
    text = text[:READ_CHARS]
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for found in _SENTENCE.finditer(outside_code):
        sentence = found[0].strip().lstrip("-*•# ").replace("**", "")
        if len(sentence) <= SENTENCE_CHARS and not _NOT_A_STATEMENT.search(
            re.sub(r"`[^`]*`", "", sentence)
        ):
            yield sentence


def _find_claims(sentence: str, record: _TurnRecord, hash_file: HashFile) -> Iterator[Claim]:
    shown = sentence[:SHOWN_CHARS]
    if _TESTS_PASS.search(sentence):
        verdict, evidence = _judge_tests(record)
        yield Claim(text=shown, about="tests", verdict=verdict, evidence=evidence)
    for ran in _RAN.finditer(sentence):
        verdict, evidence = _judge_command(ran[1], bool(_SUCCESS.search(sentence)), record)
        yield Claim(text=shown, about="command", verdict=verdict, evidence=evidence)
    for verb, between, path in _FILE.findall(sentence):
        act = "changed" if _WITHIN.search(between) else _ACTS.get(verb.lower(), "changed")
        try:
            verdict, evidence = _judge_file(act, path, record, hash_file)
        except ValueError:
            continue
        yield Claim(text=shown, about="file", verdict=verdict, evidence=evidence)


def _judge_tests(record: _TurnRecord) -> tuple[ClaimVerdict, str]:
    runs = [run for run in record.runs if _RUNNERS.search(run.command)]
    if not runs:
        if record.runs:
            return "unknown", "no command that is known to run tests was run"
        return "not_supported", "no command was run"
    last = runs[-1]
    if _SAID_FAILED.search(last.output) and last.exit_code != 0:
        return "not_supported", f"{last.command!r} ended with exit code {last.exit_code}"
    if _HIDES_THE_EXIT_CODE.search(last.command.replace("2>&1", "")):
        if _SAID_FAILED.search(last.output):
            return "not_supported", f"{last.command!r} printed that tests failed"
        return "unknown", f"the exit code of {last.command!r} is not that of the tests"
    if last.exit_code != 0:
        return "not_supported", f"{last.command!r} ended with exit code {last.exit_code}"
    if record.last_change > last.at:
        return "unknown", f"files were changed after {last.command!r} had passed"
    return "supported", f"{last.command!r} ended with exit code 0"


def _judge_command(
    statement: str, with_success: bool, record: _TurnRecord
) -> tuple[ClaimVerdict, str]:
    wanted = " ".join(statement.split())
    same = [run for run in record.runs if wanted in " ".join(run.command.split())]
    if not same:
        program = wanted.partition(" ")[0]
        if any(program in run.command for run in record.runs):
            return "unknown", f"{program} was run, but not as {wanted!r}"
        return "not_supported", f"no command with {program!r} in it was run"
    last = same[-1]
    if with_success and last.exit_code != 0:
        return "not_supported", f"{last.command!r} ended with exit code {last.exit_code}"
    return "supported", f"{last.command!r} ended with exit code {last.exit_code}"


def _judge_file(
    act: FileAct, path: str, record: _TurnRecord, hash_file: HashFile
) -> tuple[ClaimVerdict, str]:
    path = path.removeprefix("./")
    now = hash_file(path)
    if act == "deleted":
        return _judge_deletion(path, now, record)
    if now is None:
        # A bare name may be a word of prose, or a file in some folder.
        if "/" not in path and any(known.endswith(f"/{path}") for known in record.diffs):
            return "unknown", f"there is no {path}, but files of that name were changed"
        return ("not_supported" if "/" in path else "unknown"), f"there is no {path}"
    if path in record.diffs:
        return _judge_change(act, path, now, record)
    if record.unseen_changes:
        return "unknown", f"only a command can have {act} {path}"
    return "not_supported", f"no call {act} {path}, and no command ran that could have"


def _judge_change(
    act: FileAct, path: str, now: str, record: _TurnRecord
) -> tuple[ClaimVerdict, str]:
    _, diff = record.diffs[path]
    if act == "created" and path not in record.created:
        return "unknown", f"{path} was changed, but it was there before"
    if diff.sha256 and diff.sha256 != now:
        return "unknown", f"{path} was {act}, and has changed since"
    return "supported", f"{path} was {act}, +{diff.added} -{diff.removed}"


def _judge_deletion(path: str, now: str | None, record: _TurnRecord) -> tuple[ClaimVerdict, str]:
    if now is not None:
        return "not_supported", f"{path} is there"
    if any(path in command for command in record.executed):
        return "supported", f"{path} is gone, and a command named it"
    return "unknown", f"{path} is not there, and nothing in the record names it"


def _collect_record(facts: Sequence[Fact]) -> _TurnRecord:
    record = _TurnRecord()
    effects: dict[str, Effect] = {}
    for at, fact in enumerate(facts):
        match fact:
            case CallJudged(call=call, effect=effect):
                effects[call.id] = effect
            case CallFinished(result=result):
                _add_details(record, at, result.details, effects.get(result.call_id), result.text)
            case Verified():
                record.runs.append(
                    _CommandRun(
                        command=fact.command, exit_code=fact.exit_code, output=fact.output, at=at
                    )
                )
            case _:
                pass
    return record


def _add_details(
    record: _TurnRecord, at: int, details: object, effect: Effect | None, text: str
) -> None:
    match details:
        case Diff() as diff:
            record.diffs[diff.path] = (at, diff)
            record.last_change = at
            if diff.created:
                record.created.add(diff.path)
        case Command(command=command, exit_code=exit_code) if effect is not None:
            record.runs.append(
                _CommandRun(command=command, exit_code=exit_code, output=text, at=at)
            )
            record.executed.add(command)
            if effect is not Effect.READ:
                record.unseen_changes = True
        case _:
            pass
