"""A kind of provider error, an ending or an exit code is complete: nothing of it is forgotten."""

import re
from pathlib import Path

import pytest

from agentcli.types.errors import (
    UNANSWERED,
    Ending,
    Exit,
    ProviderError,
    ProviderErrorKind,
    RunOutcome,
)

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ProviderErrorKind)
def test_kind_of_provider_error_has_an_ending(kind: ProviderErrorKind) -> None:
    assert ProviderError("no reply", kind=kind).ending in Ending


@pytest.mark.parametrize("ending", Ending)
def test_ending_has_a_row_in_the_reference_with_its_exit_code_and_status(ending: Ending) -> None:
    outcome = RunOutcome(ending=ending)
    (row,) = [line for line in REFERENCE.splitlines() if re.match(rf"\|.*\|.*\|.*`{ending}`", line)]
    assert row.startswith(f"| {int(outcome.exit_code)} | {outcome.status} |")


def test_every_exit_code_is_in_the_tables_of_the_reference_and_the_readme() -> None:
    for table in (REFERENCE, README.partition("## Exit codes")[2].partition("\n## ")[0]):
        cells = re.findall(r"^\| (\d[\d, ]*) \|", table, re.M)
        assert sorted(int(code) for cell in cells for code in cell.split(", ")) == sorted(Exit)


def test_prompt_may_be_sent_again_unless_it_was_refused_or_a_limit_was_reached() -> None:
    assert {Ending.MISCONFIGURED, Ending.PROVIDER_FAILED, Ending.OVERFLOW} <= UNANSWERED
    assert not {Ending.REFUSED, Ending.COST_LIMIT, Ending.TOKEN_LIMIT} & UNANSWERED
