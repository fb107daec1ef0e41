"""What went wrong, as a sentence for the person, with the one thing to do about it.

Whatever a provider or a library said passes through here: the key in it is cut to its last four
characters.
"""

from math import ceil

from agentcli.types.errors import ProviderError, ProviderErrorKind, SettingsError
from agentcli.types.record import dataclass
from agentcli.wire.dialect import Model
from agentcli.wire.http.sockets import ATTEMPTS, ConnectionBroken
from agentcli.wire.providers import Key, Provider

RETRIED = (ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.UNAVAILABLE, ProviderErrorKind.CUT)

LATER = "try again later, or with another model: agentcli models lists them"

_SHORT_REASONS = {429: "rate limited", 529: "overloaded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One attempt that gave no reply."""

    error: ProviderError
    attempts: int
    """How many attempts such a failure is worth, over all; 1 where another would end the same."""


def to_failure(error: ProviderError | ConnectionBroken) -> AttemptFailure:
    if isinstance(error, ConnectionBroken):
        wired = ProviderError(str(error), kind=error.kind, hint=error.hint)
        return AttemptFailure(error=wired, attempts=error.attempts)
    return AttemptFailure(error=error, attempts=ATTEMPTS if error.kind in RETRIED else 1)


def describe_reason(error: ProviderError, *, shown_chars: int) -> str:
    """A clause for the line that announces another attempt."""
    words = _SHORT_REASONS.get(error.status or 0, str(error))
    if shown_chars:
        return f"{words} ({shown_chars:,} characters of it are dropped)"
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureExplainer:
    provider: Provider
    model: Model
    key: Key | None

    def explain_final(self, error: ProviderError, *, attempts: int) -> ProviderError:
        """The error that ends a request."""
        said = self.remove_key(str(error)).rstrip(".")
        message, hint = f"{self.provider.name}: {said}", error.hint
        if attempts > 1:
            message += f", after {attempts} attempts"
        match error.kind:
            case ProviderErrorKind.CREDENTIALS if error.status == 401:
                message, hint = self._describe_rejection(error.status), hint or self._key_hint()
            case ProviderErrorKind.CREDENTIALS:
                message = f"{message} ({self._key_words()})"
                hint = hint or (self._key_hint() if error.status in (400, 403) else "")
            case ProviderErrorKind.UNAVAILABLE if (
                hint and error.status is None and self._is_local()
            ):
                hint = f"Is {self.provider.name} running?"
            case _ if error.kind in RETRIED:
                hint = hint or LATER
            case ProviderErrorKind.OVERFLOW:
                hint = hint or "Shorten the prompt or the conversation, or begin another."
            case ProviderErrorKind.MODEL if error.status == 404:
                message = f"{self.provider.name} has no model {self.model.name}: {said}"
        return ProviderError(
            message,
            kind=error.kind,
            hint=self.remove_key(hint),
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def explain_long_wait(self, error: ProviderError, *, max_wait_s: float) -> ProviderError:
        wait_s = error.retry_after_s or 0.0
        wait = _duration(wait_s)
        return ProviderError(
            f"{self.provider.name} asks to wait {wait}, more than the {max_wait_s:g} s allowed:"
            f" {self.remove_key(str(error))}",
            kind=error.kind,
            hint=f"Try again in {wait}, or allow it: --max-wait {ceil(wait_s)}",
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def remove_key(self, text: str) -> str:
        return text.replace(self.key.value, self.key.tail) if self.key else text

    def _is_local(self) -> bool:
        return not self.provider.needs_key and not self.provider.platform

    def _describe_rejection(self, status: int | None) -> str:
        return f"{self.provider.name} rejected the API key ({status}, {self._key_words()})"

    def _key_words(self) -> str:
        if self.key is None:
            return "no key was sent"
        return f"key from {self.key.source}, ends in {self.key.tail}"

    def _key_hint(self) -> str:
        return f"export {self.provider.key_env[0]}=…" if self.provider.key_env else ""


def require_key(key: Key | None, provider: Provider) -> Key | None:
    """The key as it may stand in a header, or a SettingsError that says where to put one."""
    variables = ", ".join(provider.key_env)
    hint = f"export {provider.key_env[0]}=…" if provider.key_env else ""
    if key is None:
        if provider.needs_key:
            raise SettingsError(
                f"no API key for {provider.name} (looked at {variables})", hint=hint
            )
        return None
    value = key.value.strip()
    if not value.isascii() or not value.isprintable() or " " in value or not value:
        raise SettingsError(
            f"the API key from {key.source} has characters in it that no key has", hint=hint
        )
    return Key(value=value, source=key.source)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
