from datetime import UTC, datetime, timedelta

import pytest

from agentcli.providers.catalog import Provider
from agentcli.providers.dialect import Model
from agentcli.providers.failures import (
    LIMIT_CHARS,
    FailureExplainer,
    classify_status,
    make_http_error,
    read_wait_s,
    summarize_body,
    to_failure,
)
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ProviderErrorKind.REJECTED),
        (401, ProviderErrorKind.CREDENTIALS),
        (403, ProviderErrorKind.CREDENTIALS),
        (404, ProviderErrorKind.MODEL),
        (408, ProviderErrorKind.UNAVAILABLE),
        (409, ProviderErrorKind.UNAVAILABLE),
        (413, ProviderErrorKind.OVERFLOW),
        (422, ProviderErrorKind.REJECTED),
        (429, ProviderErrorKind.RATE_LIMITED),
        (500, ProviderErrorKind.UNAVAILABLE),
        (501, ProviderErrorKind.REJECTED),
        (503, ProviderErrorKind.UNAVAILABLE),
        (529, ProviderErrorKind.UNAVAILABLE),
    ],
)
def test_status_has_a_kind(status: int, kind: ProviderErrorKind) -> None:
    assert classify_status(status) is kind


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "10000000000"}, 1e10),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_wait_is_read_from_the_headers(headers: dict[str, str], expected: float | None) -> None:
    assert read_wait_s(headers) == expected


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


@pytest.mark.parametrize(
    "body", ["<html><title>Oops</title></html>", "404 page not found", {"detail": "Not Found"}]
)
def test_path_that_is_not_there_is_no_missing_model(body: Json) -> None:
    error = make_http_error(404, {}, said=summarize_body(body), kind=ProviderErrorKind.MODEL)
    assert (error.kind, error.hint) == (ProviderErrorKind.REJECTED, "check the base URL")
    assert str(error).startswith("there is no API at this address: ")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"request-id": "req_011"}, "Oops (HTTP 500, request req_011)"),
        ({"x-request-id": " 7f-3 ", "cf-ray": "9"}, "Oops (HTTP 500, request 7f-3)"),
        ({"x-request-id": "\x1b[31m"}, "Oops (HTTP 500)"),
        ({"x-request-id": "x" * 101}, "Oops (HTTP 500)"),
        ({"x-request-id": ""}, "Oops (HTTP 500)"),
    ],
)
def test_id_of_the_request_is_told(headers: dict[str, str], words: str) -> None:
    assert str(make_http_error(500, headers, said="Oops")) == words


def test_wait_until_a_date_is_counted_from_now() -> None:
    date = datetime.now(UTC) + timedelta(seconds=100)
    wait = read_wait_s({"retry-after": date.strftime("%a, %d %b %Y %H:%M:%S GMT")})
    assert wait is not None
    assert 90 < wait <= 100


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"error": {"message": "no\n  way"}}, "no way"),
        ({"error": "plain"}, "plain"),
        ({"message": "flat"}, "flat"),
        ({"detail": "fast"}, "fast"),
        ([{"error": {"message": "listed"}}], "listed"),
        ("text", "text"),
        ("", ""),
        (None, ""),
        ({}, ""),
        ([], ""),
        ({"error": {"code": 3}}, '{"error": {"code": 3}}'),
        ("<!DOCTYPE html><html><TITLE>\n 502 </TITLE>", "received a web page: 502"),
        ("  <html><body>x", "received a web page"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_body_of_any_shape_is_one_line(body: Json, line: str) -> None:
    assert summarize_body(body) == line


def test_line_is_bounded() -> None:
    assert summarize_body("x" * 10_000_000) == "x" * LIMIT_CHARS + "…"
    assert len(summarize_body("<html>" + "<title>" * 2_000_000)) < 100


def test_error_says_what_was_said_and_the_status() -> None:
    error = make_http_error(503, {"retry-after": "2"}, said="Loading")
    assert (str(error), error.status, error.retry_after_s) == ("Loading (HTTP 503)", 503, 2.0)
    assert str(make_http_error(503, {}, said="")) == "HTTP 503"


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
