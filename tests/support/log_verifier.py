"""A verifier of logs made from docs/reference/log.md alone: it imports nothing of the program.

The fields of facts are read from the page itself.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/reference/log.md"
SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
ROW = re.compile(r"^\| `(\w+)` \| `?(.*?)`? \|$", re.MULTILINE)
FIELD = re.compile(r"(\w+): (.+?)(?: = (.+?))?(?:, (?=\w+: )|$)")
LEAVE_OPEN = ("cancelled", "time_limit", "internal")
AFTERWARDS = ("session_named", "undone", "checkpointed", "context_note")


class Violation(Exception):
    """A rule of the page does not hold."""


def check(holds: bool) -> None:
    if not holds:
        raise Violation


class Fields:
    """The two tables of the page, as a check of values."""

    def __init__(self, page: str) -> None:
        section = page.split("## Fields")[1].split("\n## ")[0]
        rows = dict(ROW.findall(section))
        self.words = {name: row for name, row in rows.items() if row.startswith('"')}
        self.objects = {
            name: FIELD.findall(row) for name, row in rows.items() if name not in self.words
        }

    def fits(self, value: Any, kind: str) -> bool:
        if kind.startswith("["):
            return self._fits_list(value, kind[1:-1])
        if " or " in kind:
            return any(self.fits(value, one) for one in kind.split(" or "))
        if kind.startswith('"'):
            return bool(value == kind[1:-1])
        if kind in self.words:
            return self.fits(value, self.words[kind])
        if kind in self.objects:
            return self.fits_object(value, kind)
        plain: dict[str, type] = {
            "string": str,
            "boolean": bool,
            "null": type(None),
            "any": object,
        }
        if kind in plain:
            return isinstance(value, plain[kind])
        number = int if kind == "integer" else int | float
        return isinstance(value, number) and not isinstance(value, bool)

    def fits_object(self, value: Any, name: str) -> bool:
        return isinstance(value, dict) and all(
            self.fits(value[key], kind) if key in value else bool(default)
            for key, kind, default in self.objects[name]
        )

    def _fits_list(self, value: Any, inner: str) -> bool:
        if not isinstance(value, list):
            return False
        if not inner.startswith("[") and ", " in inner:
            kinds = inner.split(", ")
            return len(value) == len(kinds) and all(map(self.fits, value, kinds))
        return all(self.fits(one, inner) for one in value)


FIELDS = Fields(PAGE.read_text(encoding="utf-8"))


def upgrade(fact: Any) -> Any:
    """A fact of format 1 in the words of format 2."""
    if not isinstance(fact, dict):
        return fact
    fact = dict(fact)
    if fact.get("type") == "told":
        fact["type"] = "context_note"
    words = {"person": "user", "opinion": "evaluation", "reader_left": "output_closed"}
    for name in ("why", "ending"):
        if isinstance(fact.get(name), str):
            fact[name] = words.get(fact[name], fact[name])
    if isinstance(fact.get("verdict"), dict):
        verdict = dict(fact["verdict"])
        if "confinement" in verdict:
            verdict["grants"] = verdict.pop("confinement")
        if verdict.get("by") == "person":
            verdict["by"] = "user"
        fact["verdict"] = verdict
    return fact


@dataclass
class OpenCall:
    id: str
    name: str
    decision: str = ""


@dataclass
class Order:
    has_begun: bool = False
    has_ended: bool = False
    in_turn: bool = False
    is_forked: bool = False
    continues_fork: bool = False
    open: list[OpenCall] = field(default_factory=list)

    def follow(self, fact: dict[str, Any]) -> None:
        kind = fact["type"]
        began, self.has_begun = self.has_begun, True
        check(began != (kind == "session_started"))
        was_in_turn = self.in_turn
        if rule := getattr(self, f"_{kind}", None):
            rule(fact)
        if kind in ("model_replied", "model_failed", "call_judged", "call_finished"):
            check(was_in_turn)

    def _turn_started(self, fact: dict[str, Any]) -> None:
        was_in_turn, self.in_turn, self.open = self.in_turn, True, []
        check(not was_in_turn and not self.has_ended)

    def _model_replied(self, fact: dict[str, Any]) -> None:
        before = self.open
        blocks = fact["message"]["content"]
        self.open = [OpenCall(b["id"], b["name"]) for b in blocks if b["type"] == "tool_call"]
        check(not before)

    def _call_judged(self, fact: dict[str, Any]) -> None:
        call = fact["call"]
        found = self._find(call["id"])
        if found is None and call.get("caller") is not None:
            found = OpenCall(call["id"], call["name"])
            self.open.append(found)
        check(found is not None and not found.decision)
        assert found is not None
        found.decision = fact["verdict"]["decision"]

    def _call_finished(self, fact: dict[str, Any]) -> None:
        result = fact["result"]
        found = self._find(result["call_id"])
        check(found is not None)
        assert found is not None
        self.open.remove(found)
        check(found.name == result["name"])
        ran = result["status"] == "ok" or result.get("error") == "timeout"
        if ran or result.get("details") is not None:
            check(found.decision in ("allow", "modify"))

    def _turn_ended(self, fact: dict[str, Any]) -> None:
        was_in_turn, self.in_turn = self.in_turn, False
        left, self.open = self.open, []
        check(was_in_turn or fact["ending"] == "denied")
        check(not left or fact["ending"] in LEAVE_OPEN)

    def _session_ended(self, fact: dict[str, Any]) -> None:
        self.has_ended = True
        check(not self.in_turn or fact["exit_code"] != 0 or self.continues_fork)

    def _session_forked(self, fact: dict[str, Any]) -> None:
        self.is_forked = True

    def _session_resumed(self, fact: dict[str, Any]) -> None:
        self.continues_fork, self.is_forked, self.has_ended = self.is_forked, False, False
        if not self.continues_fork:
            was_in_turn, self.in_turn = self.in_turn, False
            check(not was_in_turn)

    def _find(self, call_id: str) -> OpenCall | None:
        return next((call for call in self.open if call.id == call_id), None)


@dataclass
class Verdict:
    status: str
    faulty_line: int | None
    last_hash: str


class Verifier:
    def __init__(self, path: Path, *, out: Path) -> None:
        self.path, self.out = path, out
        self.outputs: list[tuple[int, str, str]] = []
        self.faults: list[int] = []
        self.facts: list[dict[str, Any]] = []
        self.order = Order()
        self.session = ""
        self.last_hash, self.last_seq = "0" * 64, 0

    def verify(self) -> Verdict:
        *lines, rest = self.path.read_bytes().split(b"\n")
        is_whole = not rest
        for number, line in enumerate(lines, start=1):
            try:
                record = self._check_line(line)
            except Violation:
                self.faults.append(number)
                is_whole = False
                break
            if record is not None:
                self._check_record(number, record)
        self._check_outputs()
        status = "broken" if self.faults else "open"
        if status == "open" and is_whole and self._is_closed():
            status = "intact"
        return Verdict(status, min(self.faults, default=None), self.last_hash)

    def _check_line(self, line: bytes) -> dict[str, Any] | None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise Violation from None
        seal = SEAL.search(line)
        check(isinstance(record, dict) and record.get("v") in (1, 2) and seal is not None)
        assert seal is not None
        digits = seal[1].decode()
        check(hashlib.sha256(line[: seal.start()] + b"}").hexdigest() == digits)
        check(record.get("prev") == self.last_hash and record.get("seq") == self.last_seq + 1)
        fact = upgrade(record.get("fact"))
        check(isinstance(fact, dict) and isinstance(fact.get("type"), str))
        is_known = fact["type"] in FIELDS.objects
        if is_known:
            check(FIELDS.fits_object(fact, fact["type"]))
            check(isinstance(record.get("at"), str) and isinstance(record.get("session"), str))
            check("parent" in record and FIELDS.fits(record["parent"], "integer or null"))
        self.last_hash, self.last_seq = digits, self.last_seq + 1
        return {**record, "fact": fact} if is_known else None

    def _check_record(self, number: int, record: dict[str, Any]) -> None:
        fact, parent = record["fact"], record["parent"]
        if not self.facts:
            self.session = record["session"]
        if fact["type"] == "session_forked":
            self.session = fact["session"]
            self.outputs = []
        self._note_output(number, fact)
        self.facts.append(fact)
        try:
            self.order.follow(fact)
            check(record["session"] == self.session)
            check(parent is None or 0 < parent < record["seq"])
            self._check_child(fact)
        except Violation:
            self.faults.append(number)

    def _check_child(self, fact: dict[str, Any]) -> None:
        details = fact["result"].get("details") if fact["type"] == "call_finished" else None
        if not details or details["type"] != "child_turn" or not details["log_path"]:
            return
        log = self.out / Path(details["log_path"]).name
        if log.is_file():
            found = Verifier(log, out=self.out).verify()
            check(found.status != "broken")
            check(details.get("log_head", "") in ("", found.last_hash))

    def _note_output(self, number: int, fact: dict[str, Any]) -> None:
        details = fact["result"].get("details") if fact["type"] == "call_finished" else None
        holder = details if details and details["type"] == "command" else fact
        sealed = holder.get("output_sha256")
        if fact["type"] == "output_stored":
            sealed = fact["sha256"]
        if sealed:
            self.outputs.append((number, Path(holder["log_path"]).name, sealed))

    def _check_outputs(self) -> None:
        for number, name, sealed in self.outputs:
            file = self.out / name
            if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() != sealed:
                self.faults.append(number)

    def _is_closed(self) -> bool:
        kinds = [fact["type"] for fact in self.facts if fact["type"] not in AFTERWARDS]
        turns = [kind for kind in kinds if kind in ("turn_started", "turn_ended")]
        return kinds[-1:] == ["session_ended"] and turns[-1:] != ["turn_started"]


def verify(path: Path) -> Verdict:
    return Verifier(path, out=path.parent / "out").verify()
