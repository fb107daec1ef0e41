import re

from hypothesis import given
from hypothesis import strategies as st

from agentcli.types.errors import Ending, RunOutcome
from agentcli.ui.oneshot.github_actions import Annotations, Workflow, neutralize_commands
from agentcli.ui.oneshot.reports import Level, ReportFinding
from agentcli.ui.tally import Tally


class Runner:
    """What GitHub's runner does with lines: commands are obeyed unless they are stopped."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def obeyed(self) -> list[str]:
        found: list[str] = []
        stopped_until = ""
        for line in self.text.splitlines():
            line = line.lstrip()
            if stopped_until:
                if line == f"::{stopped_until}::":
                    stopped_until = ""
            elif line.startswith("::stop-commands::"):
                stopped_until = line.removeprefix("::stop-commands::")
            elif line.startswith("::") or "##[" in line:
                found.append(line)
        return found


def finding(title: str, level: Level = "error") -> ReportFinding:
    return ReportFinding(rule="r", level=level, title=title, message="m")


def test_foreign_text_is_not_obeyed() -> None:
    runner = Runner()
    workflow = Workflow(runner.write)
    workflow.open()
    workflow.write_line("::error::foreign")
    workflow.write_card(
        "bash echo", ["::set-env name=PATH::/tmp", "  ::add-path::/tmp", "##[error]x"]
    )
    workflow.write_line("::stop-commands::mine")
    workflow.close()
    assert runner.obeyed() == ["::group::bash echo", "::endgroup::"]


def test_fence_is_another_one_every_time() -> None:
    runner = Runner()
    workflow = Workflow(runner.write)
    workflow.open()
    for _ in range(20):
        workflow.write_card("t", ["b"])
    workflow.close()
    fences = re.findall(r"::stop-commands::(\S+)", runner.text)
    assert len(set(fences)) == len(fences) == 41
    assert all(len(fence) > 32 for fence in fences)


@given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=3))
def test_title_cannot_become_a_second_command(title: str, body: list[str]) -> None:
    runner = Runner()
    workflow = Workflow(runner.write)
    workflow.open()
    lines = [part for text in body for part in (text.splitlines() or [""])]
    workflow.write_card(title, lines or ["x"])
    workflow.close()
    first, *rest = [line for line in runner.text.split("\n") if line.startswith("::group::")]
    assert (rest, "\r" in first) == ([], False)


def test_masks_come_first_and_line_by_line() -> None:
    runner = Runner()
    Workflow(runner.write).open(masked=["one\ntwo%"])
    assert runner.text.splitlines()[:2] == ["::add-mask::one", "::add-mask::two%25"]


def test_annotation_has_its_place_and_its_text_escaped() -> None:
    runner = Runner()
    workflow = Workflow(runner.write)
    found = ReportFinding(
        rule="r",
        level="note",
        title="a, b: c",
        message="50%\n::error::x",
        path="src/a,b.py",
        line=3,
        end_line=4,
    )
    workflow.annotate([found])
    assert runner.obeyed() == [
        "::notice file=src/a%2Cb.py,line=3,endLine=4,title=a%2C b%3A c::50%25%0A::error::x"
    ]


def test_annotations_are_ten_of_a_kind_at_most() -> None:
    runner = Runner()
    tally, outcome = Tally(), RunOutcome(ending=Ending.DONE)
    many = [finding(f"t{n}") for n in range(15)] + [finding("w", level="warning")]
    workflow = Workflow(runner.write)
    workflow.open()
    Annotations(workflow, lambda tally, outcome: many).finish(outcome, tally)
    obeyed = runner.obeyed()
    assert [line.split()[0] for line in obeyed] == ["::error"] * 10 + ["::warning"]


@given(st.text(alphabet="ab:#[ \n", max_size=60))
def test_defanged_answer_has_no_commands_and_reads_the_same(text: str) -> None:
    runner = Runner()
    runner.write(neutralize_commands(text))
    assert runner.obeyed() == []
    assert neutralize_commands(text).replace("\u200b", "") == text


def test_answer_without_commands_is_left_alone() -> None:
    text = "Use `std::vector`.\nA: b:: c\n# [x]\n"
    assert neutralize_commands(text) == text
