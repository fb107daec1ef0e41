import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentcli.tools.search_tools import Ranking, SearchTools
from agentcli.types.messages import Text
from agentcli.types.tools import Output, Raw, ToolContext, ToolSpec
from tests.support.files import ignore

DESCRIPTIONS = {
    "hub__create_issue": "Opens a new issue in a repository.",
    "hub__listPullRequests": "Lists the open pull requests.",
    "mail__send": "Verschickt eine E-Mail an Empfänger.",
    "kalender__termin": "予定を作成する",
    "shop__pay": "Pays an invoice of a customer.",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create an issue", "hub__create_issue"),
        ("pull request", "hub__listPullRequests"),
        ("LIST PULL REQUESTS", "hub__listPullRequests"),
        ("e-mail empfanger empfänger", "mail__send"),
        ("予定", "kalender__termin"),
        ("paying invoices", "shop__pay"),
    ],
)
def test_best_fit_comes_first_in_any_script(query: str, first: str) -> None:
    texts = {name: f"{name} {text}" for name, text in DESCRIPTIONS.items()}
    assert Ranking(texts).find_best(query, 3)[0] == first


def test_small_words_find_nothing() -> None:
    texts = {name: f"{name} {text}" for name, text in DESCRIPTIONS.items()}
    assert Ranking(texts).find_best("how do I do this in the a of an", 3) == []
    assert Ranking(texts).find_best("pay for the thing in a shop", 3) == ["shop__pay"]


def test_ranking_of_nothing_finds_nothing() -> None:
    assert list(Ranking({}).find_best("x", 3)) == []


def search(query: str, descriptions: Mapping[str, str] = DESCRIPTIONS) -> tuple[Output, list[str]]:
    declared: list[str] = []
    specs = [
        ToolSpec(name=name, description=text, schema={}, source=f"mcp {name.split('__')[0]}")
        for name, text in descriptions.items()
    ]

    def declare(names: Sequence[str]) -> None:
        declared.extend(names)

    tool = SearchTools(deferred=lambda: specs, declare=declare)
    context = ToolContext(call_id="c", workspace=Path(), progress=ignore)
    return asyncio.run(tool.run(tool.parse({"query": query}), context)), declared


def test_what_is_found_is_declared_and_told_where_it_comes_from() -> None:
    output, declared = search("pay an invoice")
    assert declared == ["shop__pay"]
    assert output == Output(
        content=(
            Text(
                text="Declared, and can be called now:\nshop__pay: Pays an invoice of a customer."
            ),
        ),
        details=Raw(text="shop__pay"),
        origin="the MCP server shop",
        found=("shop__pay",),
    )


def test_search_without_a_fit_says_what_there_is() -> None:
    output, declared = search("zebra")
    assert declared == []
    assert output.content == (
        Text(
            text="None of the 5 tools fits. They come from: mcp hub, mcp mail, mcp kalender, mcp "
            "shop. Try other words."
        ),
    )


def test_search_before_any_server_is_ready_says_so() -> None:
    output, declared = search("pay an invoice", {})
    (text,) = output.content
    assert isinstance(text, Text) and "still starting" in text.text
    assert declared == []
