import pytest

from tests.support.confined import LAYERS
from tests.support.everyday import (
    ALONE,
    BROWSER,
    FROM_HOSTS,
    NODE_FETCH,
    WITH_IDENTITY,
    OpenWork,
    Person,
    Work,
)
from tests.support.registries import PACKAGES, Registries

NO_CALLS = "this machine does not let us connect for commands: a named gap"
NO_HOSTS = "hosts cannot be granted one by one in this sandbox"


def skip_what_the_machine_lacks(told: str) -> None:
    if NO_HOSTS in told:
        pytest.skip(NO_CALLS)
    if "No module named" in told or "ensurepip is not available" in told:
        pytest.skip("this Python has no venv, pip or plugin of pytest")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", FROM_HOSTS, ids=lambda work: work.name)
def test_command_that_needs_a_host_is_refused_with_the_way_to_it_and_works_with_it(
    work: Work, layer: str, person: Person, registries: Registries
) -> None:
    network = ("--network", work.host)
    ran = person.run(layer, work, registries=registries)
    told = person.read_result()
    if "refused" not in told:
        person.run(layer, work, *network, registries=registries)
        skip_what_the_machine_lacks(person.read_result())
    assert f"{work.host}:80 was refused" in told
    assert f"the user can permit it with --network {work.host}" in told
    assert not registries.was_asked(work.host)
    assert ran.code == 5, ran.err
    assert f"fix: --network {work.host}" in ran.err
    ran = person.run(layer, work, *network, registries=registries)
    told = person.read_result()
    skip_what_the_machine_lacks(told)
    assert work.shows in told
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", (*ALONE, BROWSER), ids=lambda work: work.name)
def test_work_of_every_day_needs_no_grant(
    work: Work, layer: str, person: Person, registries: Registries
) -> None:
    ran = person.run(layer, work, registries=registries)
    told = person.read_result()
    skip_what_the_machine_lacks(told)
    assert work.shows in told
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("layer", LAYERS)
def test_fetch_of_node_uses_the_proxy_or_the_model_knows_that_it_does_not(
    layer: str, person: Person, registries: Registries
) -> None:
    person.run(layer, NODE_FETCH, "--network", PACKAGES, registries=registries)
    told = person.read_result()
    skip_what_the_machine_lacks(told)
    is_told = f"[{PACKAGES} is granted, but this program does not use" in told
    assert NODE_FETCH.shows in told or is_told


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("open_work", WITH_IDENTITY, ids=lambda one: one.__name__)
def test_work_as_the_user_fails_with_the_way_to_it_and_is_done_by_a_rule(
    open_work: OpenWork, layer: str, person: Person, registries: Registries
) -> None:
    with open_work(person, registries) as work:
        network = ("--network", work.host) if work.host else ()
        ran = person.run(layer, work.ask_after_it_failed(), *network, registries=registries)
        told = person.read_result()
        skip_what_the_machine_lacks(told)
        assert work.shows not in told
        assert f'needs: "{work.needs}"]' in told
        assert "Denied: it asks for" in told
        assert "left in the background" not in told
        assert ran.code == 5, ran.err
        assert f"with {work.given}\n  fix: --policy FILE" in ran.err
        rules = person.home / "rules.toml"
        rules.write_text(work.rule)
        ran = person.run(layer, work, "--policy", str(rules), registries=registries)
        told = person.read_result()
    assert work.shows in told, ran.err
    assert ran.code == 0, ran.err
