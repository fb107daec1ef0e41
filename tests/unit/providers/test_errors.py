"""What an error says: its kind by a table, the wait, and one line of any body."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from agentcli.providers.errors import (
    KINDS,
    LIMIT_CHARS,
    classify_status,
    find_kind_of_code,
    find_kind_of_sentence,
    make_http_error,
    read_wait_s,
    summarize_body,
)
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.messages import Json


def test_every_kind_has_a_row() -> None:
    assert set(KINDS) == set(ProviderErrorKind)


def test_no_status_and_no_code_means_two_kinds() -> None:
    meant = Counter(
        sign
        for signs in KINDS.values()
        for sign in (
            *signs.statuses,
            *((family, code) for family, codes in signs.codes.items() for code in codes),
        )
    )
    assert [sign for sign, times in meant.items() if times > 1] == []


def test_precise_code_wins_over_a_general_one() -> None:
    found = find_kind_of_code("gemini", "permission_denied", "resource_exhausted")
    assert found is ProviderErrorKind.RATE_LIMITED


def test_code_of_another_protocol_and_a_value_that_is_no_word_mean_nothing() -> None:
    assert find_kind_of_code("anthropic", "insufficient_quota", 429, None, {"code": 1}) is None


def test_sentence_is_found_whatever_its_letters() -> None:
    text = "HTTP 400: Prompt Is Too Long: 250000 tokens"
    assert find_kind_of_sentence("anthropic", text) is ProviderErrorKind.OVERFLOW
    assert find_kind_of_sentence("gemini", text) is None


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
