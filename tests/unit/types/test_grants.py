from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentcli.types.grants import CREDENTIALS, NO_GRANTS, Grants
from tests.support.examples import examples

HOSTS = ("a.example", "*.b.example", "localhost:80")
PATHS = tuple(map(Path, ("/x", "/y")))


def subsets(items: tuple[object, ...]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(st.sampled_from(items), unique=True).map(tuple)


GRANTS = st.builds(
    Grants,
    network=st.booleans(),
    hosts=subsets(HOSTS),
    writable=subsets(PATHS),
    readable=subsets(PATHS),
    credentials=subsets(CREDENTIALS),
    outside=st.booleans(),
)


@examples(100)
@given(one=GRANTS, other=GRANTS)
def test_what_both_give_is_never_more_than_either(one: Grants, other: Grants) -> None:
    common = one & other
    assert set(common.writable) <= set(one.writable) & set(other.writable)
    assert set(common.credentials) <= set(one.credentials) & set(other.credentials)
    assert common.network == (one.network and other.network)
    for given_by in (one, other):
        assert given_by.network or set(common.hosts) <= set(given_by.hosts)
        assert given_by.outside or not common.outside


@examples(50)
@given(one=GRANTS)
def test_nothing_more_changes_nothing_and_is_common_to_all(one: Grants) -> None:
    assert one | NO_GRANTS == one | one == one
    assert one & NO_GRANTS == NO_GRANTS


def test_grants_say_what_a_command_may_reach() -> None:
    assert NO_GRANTS.describe() == "sandboxed, no network"
    everything = Grants(hosts=HOSTS, writable=PATHS, readable=PATHS[:1], credentials=("git",))
    assert everything.describe() == (
        "sandboxed, network: a.example *.b.example localhost:80, can also write /x /y,"
        " can also read /x, credentials: git"
    )
    assert Grants(network=True).describe() == "sandboxed, whole network"
    assert "no sandbox" in Grants(outside=True, network=True).describe()
