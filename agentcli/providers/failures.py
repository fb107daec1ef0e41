"""An attempt that gave no reply: whether another is worth making, and what the user is told."""

from math import ceil

from agentcli.providers.catalog import Key, Provider, suggest_login
from agentcli.providers.dialect import Model
from agentcli.providers.errors import KINDS
from agentcli.providers.http.sockets import ATTEMPTS, ConnectionBroken
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass

_SHORT_REASONS = {429: "rate limited", 529: "overloaded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One attempt that gave no reply."""

    error: ProviderError
    max_attempts: int
    """The total attempts worth making; 1 if another would fail the same way."""


def to_failure(
    error: ProviderError | ConnectionBroken, *, should_retry: str = ""
) -> AttemptFailure:
    """Return the failure. `should_retry` is a header: true or false there overrides the kind.

    Notes on the error, such as the id of the request, become part of its text."""
    text = " ".join((str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))))
    if isinstance(error, ConnectionBroken):
        failure = ProviderError(text, kind=error.kind, hint=error.hint)
        return AttemptFailure(error=failure, max_attempts=error.max_attempts)
    error = ProviderError(
        text,
        kind=error.kind,
        hint=error.hint,
        status=error.status,
        retry_after_s=error.retry_after_s,
    )
    advice = should_retry.strip().lower()
    is_retried = advice == "true" or (advice != "false" and error.may_be_retried)
    return AttemptFailure(error=error, max_attempts=ATTEMPTS if is_retried else 1)


def describe_reason(error: ProviderError, *, shown_chars: int) -> str:
    """Return a clause for the line that announces another attempt."""
    words = _SHORT_REASONS.get(error.status or 0, str(error))
    if shown_chars:
        return f"{words} (dropping {shown_chars:,} characters)"
    return words


_SHORTEST_KEY = 8
"""A shorter key is a word for a server that wants none, and may be any part of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureExplainer:
    provider: Provider
    model: Model
    key: Key | None

    def explain_final(self, error: ProviderError, *, attempts: int) -> ProviderError:
        """Return the error that ends a request."""
        return ProviderError(
            self._describe(error, attempts=attempts),
            kind=error.kind,
            hint=self.remove_key(self._suggest_fix(error)),
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def explain_long_wait(self, error: ProviderError, *, max_wait_s: float) -> ProviderError:
        wait_s = error.retry_after_s or 0.0
        wait = _format_duration(wait_s)
        return ProviderError(
            f"{self.provider.name} asks to wait {wait}, more than the {max_wait_s:g} s allowed:"
            f" {self.remove_key(str(error))}",
            kind=error.kind,
            hint=f"try again in {wait}, or wait longer: --max-wait {ceil(wait_s)}",
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def remove_key(self, text: str) -> str:
        """Return the text without the key."""
        if self.key is None or len(self.key.value) < _SHORTEST_KEY:
            return text
        return text.replace(self.key.value, self.key.tail)

    def _describe(self, error: ProviderError, *, attempts: int) -> str:
        text = self.remove_key(str(error)).rstrip(".")
        after = f", after {attempts} attempts" if attempts > 1 else ""
        message = f"{self.provider.name}: {text}{after}"
        match error.kind:
            case ProviderErrorKind.CREDENTIALS if error.status == 401:
                return self._describe_rejection(error.status)
            case ProviderErrorKind.CREDENTIALS:
                return f"{message} ({self._describe_key()})"
            case ProviderErrorKind.MODEL if error.status == 404:
                return f"{self.provider.name} has no model {self.model.name}: {text}"
            case _:
                return message

    def _suggest_fix(self, error: ProviderError) -> str:
        """Return the hint that the error has, or the one of its kind; empty if there is none."""
        match error.kind:
            case ProviderErrorKind.UNAVAILABLE if (
                error.hint and error.status is None and self._is_local()
            ):
                return f"check that {self.provider.name} is running"
            case _ if error.hint:
                return error.hint
            case ProviderErrorKind.CREDENTIALS:
                return self._suggest_key_fix() if error.status in (400, 401, 403) else ""
            case ProviderErrorKind.MODEL:
                return self._suggest_models()
            case kind:
                return KINDS[kind].hint

    def _is_local(self) -> bool:
        return not self.provider.needs_key and not self.provider.platform

    def _describe_rejection(self, status: int | None) -> str:
        return f"{self.provider.name} rejected the API key ({status}, {self._describe_key()})"

    def _describe_key(self) -> str:
        if self.key is None:
            return "no key was sent"
        return f"key from {self.key.source}, ends in {self.key.tail}"

    def _suggest_models(self) -> str:
        return "agentcli models --local" if self._is_local() else "agentcli models"

    def _suggest_key_fix(self) -> str:
        return self.key.fix if self.key else suggest_login(self.provider)


def _format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
