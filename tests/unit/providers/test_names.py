import re

import pytest

from agentcli.providers.catalog import resolve
from agentcli.providers.normalize import (
    NormalizedHistory,
    encode_id,
    encode_name,
    prepare_request,
)
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec

OPUS = resolve("opus")

EVERY_PROVIDER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@pytest.mark.parametrize("name", ["bash", "read_file", "_x", "a-b", "x" * 64])
def test_name_every_provider_takes_stays(name: str) -> None:
    assert encode_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a.b", "server/tool", "1st", "-x", "x" * 65, "é", "name with spaces", "\ud800"]
)
def test_other_name_becomes_one_every_provider_takes(name: str) -> None:
    assert EVERY_PROVIDER.fullmatch(encode_name(name))


def test_names_that_differ_stay_different() -> None:
    names = ["a.b", "a_b", "a/b", "a b", "x" * 65, "x" * 66, "", "_"]
    assert len({encode_name(name) for name in names}) == len(names)


def test_wire_name_of_a_wire_name_is_itself() -> None:
    assert encode_name(encode_name("a.b")) == encode_name("a.b")


def test_own_names_lead_back() -> None:
    tools = tuple(
        ToolSpec(name=name, description="", schema={}) for name in ("bash", "server.tool")
    )
    request = Request(model="m", system="", messages=(), tools=tools)
    names = prepare_request(request, NormalizedHistory(OPUS)).names
    assert names[encode_name("server.tool")] == "server.tool"
    assert names["bash"] == "bash"


def test_id_is_short_and_plain() -> None:
    assert encode_id("toolu_01") == "toolu_01"
    assert encode_id("") == "call"
    assert encode_id("a.b:c|d") == "a_b_c_d"
    assert encode_id("toolu_01", suffix="_2") == "toolu_01_2"
    long_ids = [encode_id("x" * 80 + end, suffix="_2") for end in "ab"]
    assert all(re.fullmatch(r"[\w-]{1,40}", call_id) for call_id in long_ids)
    assert long_ids[0] != long_ids[1]
