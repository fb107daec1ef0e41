"""The two trees of errors, by who can act on them, and the table of exit codes.

    ToolError               the model can act: becomes an error result, never leaves dispatch
    AgentError              the user can act: two lines on stderr and an exit code
      UsageError            2   the command line is wrong
      SettingsError         3   settings, credentials, workspace or disk need the user
        MissingKeyError     3   there is no key for the provider
        RecordError         3   an event cannot be recorded
      ProviderError         3, 4, 6 or 8   no usable reply, by its kind

Any other exception is a bug: it reaches `__main__`, which exits with 1.
"""

import errno
import shlex
from enum import IntEnum, StrEnum

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import Details, ErrorKind


class Ending(StrEnum):
    """Every way a turn or a run can end.

    A new one needs a row in `EXIT_OF_ENDING` and in docs/reference/exit-codes.md, and may have one
    in `ADVICE_OF_ENDING`. The ending of a limit belongs to `LIMIT_ENDINGS`.
    """

    DONE = "done"
    DENIED = "denied"
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    TOKEN_LIMIT = "token_limit"
    REPEATED = "repeated"
    LENGTH = "length"
    OVERFLOW = "overflow"
    REFUSED = "refused"
    MISCONFIGURED = "misconfigured"
    PROVIDER_FAILED = "provider_failed"
    VERIFY_FAILED = "verify_failed"
    CLAIM_UNSUPPORTED = "claim_unsupported"
    SCHEMA_UNMET = "schema_unmet"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    HUNG_UP = "hung_up"
    OUTPUT_CLOSED = "output_closed"
    USAGE = "usage"
    INTERNAL = "internal"


class Exit(IntEnum):
    """The exit codes of the program.

    A new one needs a row in `_STATUS_OF_EXIT`, in docs/reference/exit-codes.md and in the table of
    the README.
    """

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    SETTINGS = 3
    PROVIDER = 4
    DENIED = 5
    LIMIT = 6
    VERIFY_FAILED = 7
    REFUSED = 8
    SCHEMA_UNMET = 9
    TIMEOUT = 124
    HANGUP = 129
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


EXIT_OF_ENDING: dict[Ending, Exit] = {
    Ending.DONE: Exit.DONE,
    Ending.DENIED: Exit.DENIED,
    Ending.STEP_LIMIT: Exit.LIMIT,
    Ending.TIME_LIMIT: Exit.TIMEOUT,
    Ending.COST_LIMIT: Exit.LIMIT,
    Ending.TOKEN_LIMIT: Exit.LIMIT,
    Ending.REPEATED: Exit.LIMIT,
    Ending.LENGTH: Exit.LIMIT,
    Ending.OVERFLOW: Exit.LIMIT,
    Ending.REFUSED: Exit.REFUSED,
    Ending.MISCONFIGURED: Exit.SETTINGS,
    Ending.PROVIDER_FAILED: Exit.PROVIDER,
    Ending.VERIFY_FAILED: Exit.VERIFY_FAILED,
    Ending.CLAIM_UNSUPPORTED: Exit.VERIFY_FAILED,
    Ending.SCHEMA_UNMET: Exit.SCHEMA_UNMET,
    Ending.CANCELLED: Exit.INTERRUPTED,
    Ending.TERMINATED: Exit.TERMINATED,
    Ending.HUNG_UP: Exit.HANGUP,
    Ending.OUTPUT_CLOSED: Exit.OUTPUT_CLOSED,
    Ending.USAGE: Exit.USAGE,
    Ending.INTERNAL: Exit.INTERNAL,
}

ADVICE_OF_ENDING: dict[Ending, str] = {
    Ending.DENIED: "allow the call: another --mode, or --allow with the rule that the denial names",
    Ending.STEP_LIMIT: "look for a loop in the trace; raise max_turns if the task needs more",
    Ending.TIME_LIMIT: "look at the slowest calls; raise the timeout if all of them were needed",
    Ending.COST_LIMIT: "look at the cost by turn; raise max_cost if it was worth it",
    Ending.TOKEN_LIMIT: "look at the cost by turn; raise the limit if it was worth it",
    Ending.REPEATED: "read the result of the repeated call: it does not help the model",
    Ending.LENGTH: "ask for less at once, or use a model with a larger output limit",
    Ending.OVERFLOW: "start a new session, or split the task: the conversation was too long",
    Ending.REFUSED: "explain what the task is for, or use another model",
}
"""What the user can do about an ending, as `triage` says it. An ending without a row needs none."""

_STATUS_OF_EXIT: dict[Exit, str] = {
    Exit.DONE: "ok",
    Exit.INTERNAL: "error",
    Exit.USAGE: "error",
    Exit.SETTINGS: "error",
    Exit.PROVIDER: "error",
    Exit.DENIED: "denied",
    Exit.LIMIT: "limit",
    Exit.TIMEOUT: "limit",
    Exit.VERIFY_FAILED: "failed",
    Exit.REFUSED: "failed",
    Exit.SCHEMA_UNMET: "failed",
    Exit.HANGUP: "interrupted",
    Exit.INTERRUPTED: "interrupted",
    Exit.OUTPUT_CLOSED: "interrupted",
    Exit.TERMINATED: "interrupted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run: the value behind the exit code, the JSON result and the last record."""

    ending: Ending
    message: str = ""
    """The reason, for the user, if the ending alone does not say it."""
    hint: str = ""

    @property
    def exit_code(self) -> Exit:
        return EXIT_OF_ENDING[self.ending]

    @property
    def status(self) -> str:
        """One of ok, failed, denied, limit, interrupted, error."""
        return _STATUS_OF_EXIT[self.exit_code]

    @property
    def is_error(self) -> bool:
        """Return whether the run could not take place, as opposed to one that failed."""
        return self.status == "error"


_FREE_MEMORY = "end other programs or raise ulimit -v, then run it again"


class ToolError(Exception):
    """A call cannot be done. The message says what was wrong and what would be right."""

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind = ErrorKind.FAILED,
        details: Details | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details


class AgentError(Exception):
    """An error that the user can fix. `hint` says how, with one command if there is one."""

    ending = Ending.INTERNAL

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def exit_code(self) -> Exit:
        return EXIT_OF_ENDING[self.ending]

    @property
    def outcome(self) -> RunOutcome:
        return RunOutcome(ending=self.ending, message=str(self), hint=self.hint)


class UsageError(AgentError):
    ending = Ending.USAGE


class SettingsError(AgentError):
    ending = Ending.MISCONFIGURED


class MissingKeyError(SettingsError):
    """No request can be sent, because there is no key for the provider."""


class RecordError(SettingsError):
    """A fact cannot be recorded, so nothing may go on."""


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error of Python means that there is no memory, also for a thread."""
    match error:
        case MemoryError():
            return True
        case RuntimeError():
            return "can't start new thread" in str(error)
        case ImportError():
            return "failed to map segment" in str(error) or "allocate memory" in str(error)
        case _:
            return False


def explain_shortage(error: BaseException) -> SettingsError | None:
    """Return what the user can do if the machine has no more files, memory or disk; else None."""
    if lacks_memory(error):
        return SettingsError("not enough memory", hint=_FREE_MEMORY)
    match error:
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return SettingsError("too many open files", hint="ulimit -n 4096, then run it again")
        case OSError(errno=errno.ENOMEM):
            return SettingsError("not enough memory", hint=_FREE_MEMORY)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            where = error.filename or "the output"
            return SettingsError(
                f"cannot write {where}: {error.strerror}",
                hint="free some space, then run it again",
            )
        case _:
            return None


def explain_obstacle(error: BaseException) -> SettingsError | None:
    """Return what the user can do about a shortage, or a path that may not be accessed; else None.

    Not for what is tried and may fail, such as a sandbox."""
    match error:
        case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS, filename=str(path)):
            parent = path.rstrip("/").rpartition("/")[0] or "."
            return SettingsError(
                f"cannot access {path}: {error.strerror}", hint=f"ls -ld {shlex.quote(parent)}"
            )
        case _:
            return explain_shortage(error)


class ProviderErrorKind(StrEnum):
    """The reason why there is no reply, as far as it decides what happens next.

    To add a kind:
    1. here, with a row in `_ENDING_OF_KIND`, in `_RETRIED` if another attempt may help, and in
       `_FALLING_BACK` if another model may answer. For an exit code of its own, also a row in
       `Ending`, `Exit` and the tables below them;
    2. in `providers/errors.py`, its row in `KINDS`: the hint for the user, and the statuses, codes
       and sentences that mean it.

    The loop, retries, fallback models, the log and all front ends go by the ending,
    `may_be_retried` and `may_fall_back`; a header of the provider can still ask for a retry. A new
    ending joins UNANSWERED, unless it is taken out there. OVERFLOW, CREDENTIALS, RATE_LIMITED,
    REJECTED and MODEL have a cure of their own in `providers/connection.py` or
    `agent/model_client.py`. A status without a row is REJECTED below 500, and loses that cure with
    a kind of its own.

    Optional: advice of `triage` in `ADVICE_OF_ENDING`. Editors get a general error for an exit code
    that is one, and else what `features/acp/conversation` says. `login` stores no key after
    UNAVAILABLE or a rejected key (`features/login/engine`). JSON results name the kind for
    PROVIDER_FAILED only (`ui/tally`).
    """

    CREDENTIALS = "credentials"  # no key, a rejected key, no permission, no money
    MODEL = "model"  # no such model, or it cannot do what is asked
    OVERFLOW = "overflow"  # the conversation does not fit: shorten it
    REFUSED = "refused"  # filtered before a reply existed
    REJECTED = "rejected"  # the request is malformed: a bug of ours or a server's quirk
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"  # network, overload, server fault, after all retries
    CUT = "cut"  # the stream ended before the reply did
    COST_CAP = "cost_cap"  # not sent: it could have cost more than the user allows
    TOKEN_CAP = "token_cap"  # not sent: it could have taken more tokens than the user allows


class ProviderError(AgentError):
    def __init__(
        self,
        message: str,
        *,
        kind: ProviderErrorKind,
        hint: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        self.ending = _ENDING_OF_KIND[kind]

    @property
    def may_be_retried(self) -> bool:
        """True if the same request may succeed later."""
        return self.kind in _RETRIED

    @property
    def may_fall_back(self) -> bool:
        """True if the fallback model may answer where this one does not."""
        return self.kind in _FALLING_BACK

    @property
    def was_sent(self) -> bool:
        return self.kind not in (ProviderErrorKind.COST_CAP, ProviderErrorKind.TOKEN_CAP)


_RETRIED = (ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.UNAVAILABLE, ProviderErrorKind.CUT)
_FALLING_BACK = _RETRIED

_ENDING_OF_KIND: dict[ProviderErrorKind, Ending] = {
    ProviderErrorKind.CREDENTIALS: Ending.MISCONFIGURED,
    ProviderErrorKind.MODEL: Ending.MISCONFIGURED,
    ProviderErrorKind.OVERFLOW: Ending.OVERFLOW,
    ProviderErrorKind.REFUSED: Ending.REFUSED,
    ProviderErrorKind.REJECTED: Ending.PROVIDER_FAILED,
    ProviderErrorKind.RATE_LIMITED: Ending.PROVIDER_FAILED,
    ProviderErrorKind.UNAVAILABLE: Ending.PROVIDER_FAILED,
    ProviderErrorKind.CUT: Ending.PROVIDER_FAILED,
    ProviderErrorKind.COST_CAP: Ending.COST_LIMIT,
    ProviderErrorKind.TOKEN_CAP: Ending.TOKEN_LIMIT,
}

LIMIT_ENDINGS = frozenset((Ending.STEP_LIMIT, Ending.COST_LIMIT, Ending.TOKEN_LIMIT))
"""The endings at a limit that the user set, but for the time limit."""

UNANSWERED = frozenset(_ENDING_OF_KIND.values()) - LIMIT_ENDINGS - {Ending.REFUSED}
"""The endings of a prompt that may be sent again. Nobody refused it, and it is within the limits
that the user set."""
