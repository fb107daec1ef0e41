import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agentcli.log.decode import NotExact, decode_fact
from agentcli.log.validation import validate_fact
from agentcli.log.writer import to_json
from agentcli.types.events import Fact
from agentcli.types.messages import Echo, ToolCall
from agentcli.types.spending import NO_SPENDING, PAID, Paid, compute_spending
from agentcli.types.tools import Structured
from agentcli.types.verdicts import Verdict
from tests.support.examples import examples

words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def built(of: type[Any]) -> st.SearchStrategy[Any]:
    """Every field drawn by its type, but the one that names the type."""
    drawn = {
        field.name: json_values if field.type is Any else ...
        for field in fields(of)
        if field.name != "type"
    }
    return st.builds(of, **drawn)


st.register_type_strategy(str, words)
st.register_type_strategy(int, st.integers(-(2**53), 2**53))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(Path, words.map(Path))
st.register_type_strategy(Echo, built(Echo))
st.register_type_strategy(ToolCall, built(ToolCall))
st.register_type_strategy(Verdict, built(Verdict))
st.register_type_strategy(Structured, built(Structured))

facts: st.SearchStrategy[Fact] = st.one_of([built(of) for of in get_args(Fact)])


def list_objects(data: object) -> Iterator[dict[str, Any]]:
    """Every object in the data, however deep."""
    if isinstance(data, dict):
        yield data
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from list_objects(item)


@examples(200, suppress_health_check=[HealthCheck.too_slow])
@given(facts)
def test_every_fact_survives_the_log(fact: Fact) -> None:
    data = json.loads(json.dumps(to_json(fact), ensure_ascii=False))
    assert decode_fact(data) == validate_fact(data) == fact


@examples(200, suppress_health_check=[HealthCheck.too_slow])
@given(fact=facts, name=words, value=json_values, at=st.integers(0, 99))
def test_no_data_is_decoded_that_the_validation_reads_otherwise(
    fact: Fact, name: str, value: object, at: int
) -> None:
    data = json.loads(json.dumps(to_json(fact), ensure_ascii=False))
    objects = list(list_objects(data))
    changed = objects[at % len(objects)]
    names = [*changed, name]
    changed[names[at % len(names)]] = value
    try:
        decoded = decode_fact(data)
    except NotExact:
        return
    assert validate_fact(data) == decoded


@pytest.mark.parametrize("data", [None, "warned", [], {}, {"type": []}, {"type": "unheard_of"}])
def test_data_that_is_no_fact_is_left_to_the_validation(data: object) -> None:
    with pytest.raises(NotExact):
        decode_fact(data)
    with pytest.raises(ValueError, match="validation error"):
        validate_fact(data)


@examples(100)
@given(fact=facts)
def test_facts_that_cost_are_of_the_types_that_may(fact: Fact) -> None:
    may_cost = fact.type in PAID
    assert isinstance(fact, Paid) == may_cost
    assert may_cost or compute_spending(fact) == NO_SPENDING
