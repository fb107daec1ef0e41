import json

import pytest
from splintr import Tokenizer

from agentcli.system.tokens import estimate
from agentcli.tools.contracts import load_spec
from agentcli.types.own_tools import BUILT_IN
from tests.support.contracts import (
    HELP,
    INPUT_SCHEMA,
    OPTIONS,
    ROOT,
    SHIPPED,
    SNAPSHOTS,
    dumped,
    generated,
    help_pages,
    input_schema,
    line_options,
)

LIMIT_TOKENS = 1000


def declared(name: str) -> str:
    spec = load_spec(name)
    return json.dumps(
        {"name": spec.name, "description": spec.description, "parameters": spec.schema},
        ensure_ascii=False,
        separators=(",", ":"),
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_shipped_contract_is_what_the_sources_say(name: str) -> None:
    assert json.loads(SHIPPED.read_text())[name] == generated(name), (
        "run: python -m tests.support.contracts"
    )


def test_pages_of_help_are_what_the_commands_say() -> None:
    written = {page.name: page.read_text() for page in HELP.iterdir()}
    assert written == help_pages(), "run: python -m tests.support.contracts"


@pytest.mark.parametrize("name", BUILT_IN)
def test_snapshot_is_the_contract(name: str) -> None:
    assert (SNAPSHOTS / f"{name}.json").read_text() == dumped(generated(name)), (
        "a contract changed: run python -m tests.support.contracts, and look at the difference"
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_schema_is_closed_and_every_parameter_is_described_with_an_example(name: str) -> None:
    schema = load_spec(name).schema
    assert isinstance(schema, dict)
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    vague = [
        field
        for field, declared_field in properties.items()
        if not isinstance(declared_field, dict) or "e.g." not in str(declared_field["description"])
    ]
    assert vague == []


def test_six_tools_cost_at_most_a_thousand_tokens() -> None:
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    costs = {name: len(tokenizer.encode(declared(name))) for name in BUILT_IN}
    assert sum(costs.values()) <= LIMIT_TOKENS, costs


@pytest.mark.parametrize("path", ["docs/house.md", "agentcli/agent/loop.py", "pyproject.toml"])
def test_estimate_is_near_the_real_count(path: str) -> None:
    text = (ROOT / path).read_text()
    count = len(Tokenizer.from_pretrained("o200k_base").encode(text))
    assert 0.8 < estimate(text) / count < 1.2


def test_options_of_run_and_the_session_are_those_of_the_commands() -> None:
    written = OPTIONS.read_text(encoding="utf-8")
    assert written == dumped(line_options()), "run: python -m tests.support.contracts"


def test_published_schema_of_json_input_is_that_of_the_program() -> None:
    assert INPUT_SCHEMA.read_text(encoding="utf-8") == dumped(input_schema())
