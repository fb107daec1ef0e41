import pytest

from agentcli.providers.catalog import Provider
from agentcli.providers.dialect import Model
from agentcli.providers.errors import classify_status, make_http_error
from agentcli.providers.failures import FailureExplainer, to_failure
from agentcli.types.errors import ProviderError, ProviderErrorKind


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_fault_of_the_request_is_final_whatever_its_body_says(status: int) -> None:
    error = make_http_error(status, {}, said="Oops", kind=ProviderErrorKind.UNAVAILABLE)
    assert error.kind is classify_status(status)
    assert to_failure(error).max_attempts == 1


@pytest.mark.parametrize(
    ("status", "should_retry", "is_retried"),
    [
        (400, "", False),
        (400, "true", True),
        (400, "perhaps", False),
        (429, "", True),
        (429, "false", False),
        (503, " False ", False),
    ],
)
def test_provider_decides_about_a_retry(status: int, should_retry: str, is_retried: bool) -> None:
    failure = to_failure(make_http_error(status, {}, said="No"), should_retry=should_retry)
    assert (failure.max_attempts > 1) == is_retried


@pytest.mark.parametrize(("needs_key", "hint"), [(True, "models"), (False, "models --local")])
def test_missing_model_names_the_command_that_lists_models(needs_key: bool, hint: str) -> None:
    provider = Provider(name="lab", protocol="openai-chat", needs_key=needs_key)
    model = Model(provider="lab", name="x", protocol="openai-chat")
    explainer = FailureExplainer(provider=provider, model=model, key=None)
    missing = ProviderError("no such model", kind=ProviderErrorKind.MODEL, status=404)
    explained = explainer.explain_final(missing, attempts=1)
    assert (str(explained), explained.hint) == (
        "lab has no model x: no such model",
        f"agentcli {hint}",
    )
