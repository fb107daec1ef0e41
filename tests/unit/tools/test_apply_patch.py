import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.permissions.subject import find_patched_paths
from agentcli.system.diff import find_changes
from agentcli.system.text import splice
from agentcli.system.workspace import Workspace
from agentcli.tools.apply_patch import ApplyPatch, ApplyPatchArgs, Patch
from agentcli.tools.arguments import build_schema
from agentcli.tools.contracts import load_patch_spec
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import to_plain_typography
from agentcli.tools.patch.parser import Update, parse_patch
from agentcli.tools.patch.plan import locate_hunks
from agentcli.tools.seen import Seen, compute_sha256
from agentcli.types.errors import ToolError
from agentcli.types.events import CallFinished, Fact
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import Diff, Effect, ErrorKind, Output, ToolContext, ToolResult
from tests.support.examples import examples

CASES = Path(__file__).parents[3] / "fixtures/patches"
APPLIED = sorted(path.parent.name for path in CASES.glob("*/expected"))
TAKEN_WITHOUT_BEING_ASKED_FOR = {
    "add_empty_file",
    "bare_heredoc_around",
    "blank_line_without_its_mark",
    "crlf_in_the_patch",
    "fence_around",
    "heredoc_around",
    "indented_as_a_whole",
    "padded_markers",
    "several_files",
}
REFUSED = sorted(path.parent.name for path in CASES.glob("*/error.txt"))


def context(workspace: Path) -> ToolContext:
    return ToolContext(call_id="c", workspace=workspace, progress=lambda text: None)


def applied(workspace: Path, patch: str) -> Output:
    tool = ApplyPatch(workspace=Workspace(workspace), seen=Seen())
    return asyncio.run(tool.run(tool.parse({"patch": patch}), context(workspace)))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".gitkeep")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def copied(case: str, target: Path) -> str:
    shutil.copytree(CASES / case / "input", target, dirs_exist_ok=True)
    return (CASES / case / "patch.txt").read_bytes().decode()


@pytest.mark.parametrize("case", APPLIED)
def test_patch_leaves_the_files_as_expected(case: str, tmp_path: Path) -> None:
    output = applied(tmp_path, copied(case, tmp_path))
    assert contents(tmp_path) == contents(CASES / case / "expected")
    assert output.error is None


@pytest.mark.parametrize("case", REFUSED)
def test_refused_patch_says_why_and_changes_nothing(case: str, tmp_path: Path) -> None:
    patch = copied(case, tmp_path)
    with pytest.raises(ToolError) as caught:
        applied(tmp_path, patch)
    assert f"{caught.value}\n" == (CASES / case / "error.txt").read_text(encoding="utf-8")
    assert contents(tmp_path) == contents(CASES / case / "input")
    assert [path for path in tmp_path.iterdir() if not any(path.rglob("*"))] == [
        path for path in tmp_path.iterdir() if path.is_file()
    ]


def test_result_names_each_file_in_the_order_of_the_patch(tmp_path: Path) -> None:
    output = applied(tmp_path, copied("several_files", tmp_path))
    assert [block.text for block in output.content if block.type == "text"] == [
        "Patch applied:\n"
        "edited a.py (+1 -1)\n"
        "added b.py (+1)\n"
        "deleted c.py\n"
        "moved d.py to e.py (+1 -1)"
    ]
    assert isinstance(output.details, Diff)
    assert (output.details.path, output.details.added, output.details.removed) == (
        "4 files",
        3,
        3,
    )


def test_patch_of_temporary_files_alone_is_told_apart(tmp_path: Path) -> None:
    at, root = tmp_path / "at", tmp_path / "ws"
    for folder in (at, root):
        folder.mkdir()
    temporary = TemporaryFiles(root=at, at=at, names=(Path("/tmp/x"),))
    workspace = Workspace(root, find_temporary=lambda: temporary)
    tool = ApplyPatch(workspace=workspace, seen=Seen())

    def apply(*paths: str) -> bool:
        added = "".join(f"*** Add File: {path}\n+a\n" for path in paths)
        args = tool.parse({"patch": f"*** Begin Patch\n{added}*** End Patch\n"})
        details = asyncio.run(tool.run(args, context(root))).details
        assert isinstance(details, Diff)
        return details.is_temporary

    assert (apply("/tmp/x/a", "/tmp/x/b"), apply("/tmp/x/c", "d"), apply("e")) == (
        True,
        False,
        False,
    )


def test_preview_shows_what_running_does_and_does_nothing(tmp_path: Path) -> None:
    patch = copied("several_files", tmp_path)
    before = contents(tmp_path)
    tool = ApplyPatch(workspace=Workspace(tmp_path), seen=Seen())
    preview = asyncio.run(tool.preview(tool.parse({"patch": patch}), context(tmp_path)))
    assert contents(tmp_path) == before
    done = applied(tmp_path, patch).details
    assert isinstance(done, Diff)
    assert replace(done, known=()) == preview


def test_preview_of_a_patch_that_will_be_refused_refuses_it(tmp_path: Path) -> None:
    tool = ApplyPatch(workspace=Workspace(tmp_path), seen=Seen())
    args = tool.parse({"patch": "*** Begin Patch\n*** Delete File: none\n*** End Patch"})
    with pytest.raises(ToolError):
        asyncio.run(tool.preview(args, context(tmp_path)))


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("", 'the patch is empty. It begins with "*** Begin Patch"'),
        ("Change a.txt.", 'line 1 of the patch is "Change a.txt.". A patch begins with'),
        ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n", 'line 1 of the patch is "--- a/a". A patch'),
        ("*** Begin Patch", 'A patch ends with "*** End Patch"'),
        ("*** Begin Patch\n*** End Patch", "the patch names no file"),
    ],
)
def test_text_that_is_no_patch_is_invalid_before_it_is_judged(
    patch: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ToolError) as caught:
        ApplyPatch(workspace=Workspace(tmp_path), seen=Seen()).parse({"patch": patch})
    assert caught.value.kind is ErrorKind.INVALID_INPUT
    assert why in str(caught.value)


def test_patch_names_every_file_it_would_change(tmp_path: Path) -> None:
    text = "*** Begin Patch\r\n*** Update File: a\r\n*** Move to: b\r\n*** Delete File: c\r\n"
    tool = ApplyPatch(workspace=Workspace(tmp_path), seen=Seen())
    assert tool.parse({"patch": f"{text}*** End Patch"}).paths == ["a", "c", "b"]


def test_rules_judge_every_file_of_a_padded_patch(tmp_path: Path) -> None:
    tool = ApplyPatch(workspace=Workspace(tmp_path), seen=Seen())
    text = copied("padded_markers", tmp_path)
    assert tool.parse({"patch": text}).paths == ["b.py", "a.py", "c.py"]
    assert find_patched_paths({"patch": text}) == ["b.py", "a.py", "c.py"]


def test_model_is_known_to_have_seen_what_it_patched(tmp_path: Path) -> None:
    patch, facts = copied("several_files", tmp_path), list[Fact]()
    workspace = Workspace(tmp_path)
    seen = Seen(facts, locate=lambda path: workspace.locate(path).path)
    tool = ApplyPatch(workspace=workspace, seen=seen)
    output = asyncio.run(tool.run(tool.parse({"patch": patch}), context(tmp_path)))
    result = ToolResult(call_id="1", name="apply_patch", status="ok", content=output.content)
    facts.append(CallFinished(result=replace(result, details=output.details)))
    root = Workspace(tmp_path).root
    known = {
        name: seen.find_knowledge(root / name, compute_sha256(text))
        for name, text in contents(root).items()
    }
    assert known == {"a.py": "current", "b.py": "current", "e.py": "current"}


def test_write_that_fails_takes_back_those_before_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("x\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/taken").write_text("", encoding="utf-8")
    before = contents(tmp_path)
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: new/deep/c.py\n+c\n"
        "*** Delete File: b.py\n*** Add File: folder/taken/d.py\n+d\n*** End Patch\n"
    )
    with pytest.raises(ToolError, match=r"folder/taken/d\.py"):
        applied(tmp_path, patch)
    assert contents(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_patch_keeps_bytes_that_are_not_utf_8_and_cannot_match_them(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes("déjà vu\none\n".encode() + b"caf\xe9\ntwo\n")
    patch = "*** Begin Patch\n*** Update File: f\n@@\n {}\n-{}\n+óne\n*** End Patch\n"
    with pytest.raises(
        ToolError, match="The \ufffd stands for a byte of the file that is not UTF-8"
    ):
        applied(tmp_path, patch.format("caf\ufffd", "two"))
    applied(tmp_path, patch.format("déjà vu", "one"))
    assert file.read_bytes() == "déjà vu\nóne\n".encode() + b"caf\xe9\ntwo\n"


def test_file_that_goes_by_another_name_is_still_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n", encoding="utf-8")
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Delete File: ./a.py\n*** End Patch"
    )
    with pytest.raises(ToolError, match="named twice"):
        applied(tmp_path, patch)
    assert contents(tmp_path) == {"a.py": b"x\n"}


@pytest.mark.parametrize(
    "change", ["*** Delete File: link.py", "*** Update File: link.py\n*** Move to: c.py"]
)
def test_link_never_goes_in_the_place_of_what_it_leads_to(change: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n", encoding="utf-8")
    (tmp_path / "link.py").symlink_to("a.py")
    with pytest.raises(ToolError, match=r"link\.py is a symbolic link\. Name a\.py itself\."):
        applied(tmp_path, f"*** Begin Patch\n{change}\n*** End Patch")
    assert (tmp_path / "a.py").exists()


def test_edit_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n", encoding="utf-8")
    (tmp_path / "link.py").symlink_to("a.py")
    applied(tmp_path, "*** Begin Patch\n*** Update File: link.py\n@@\n-x\n+y\n*** End Patch")
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "y\n"


@pytest.mark.skipif(os.name != "posix", reason="permissions are a matter of POSIX")
def test_moved_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("x\n", encoding="utf-8")
    (tmp_path / "run.sh").chmod(0o755)
    change = "*** Update File: run.sh\n*** Move to: bin/go.sh\n@@\n-x\n+y"
    applied(tmp_path, f"*** Begin Patch\n{change}\n*** End Patch")
    assert stat.S_IMODE((tmp_path / "bin/go.sh").stat().st_mode) == 0o755


def test_contract_is_that_of_the_arguments() -> None:
    assert load_patch_spec().schema == build_schema(ApplyPatchArgs)
    assert (
        ApplyPatch(workspace=Workspace(Path()), seen=Seen()).effect(Patch(changes=()))
        is Effect.WRITE
    )


def test_arguments_that_are_no_patch_are_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        applied(tmp_path, "just text")
    assert caught.value.kind is ErrorKind.INVALID_INPUT


def test_grammar_admits_every_patch_that_a_model_is_asked_to_write() -> None:
    lark = pytest.importorskip("lark", reason="lark reads the grammar as the provider does")
    grammar = lark.Lark(load_patch_spec().grammar, parser="lalr")
    for case in APPLIED:
        patch = (CASES / case / "patch.txt").read_bytes().decode()
        if case in TAKEN_WITHOUT_BEING_ASKED_FOR:
            with pytest.raises(lark.UnexpectedInput):
                grammar.parse(patch)
        else:
            grammar.parse(patch)


# Texts of short lines that repeat, so that places are easily mistaken for each other.
texts = st.lists(st.sampled_from(["a", "b", "  a", "", "c"]), min_size=1, max_size=12)


def patch_between(old: list[str], new: list[str], *, context_lines: int) -> Iterator[str]:
    yield "*** Begin Patch\n*** Update File: f"
    for change in find_changes(old, new):
        first = max(0, change.old_start - context_lines)
        past = min(len(old), change.old_end + context_lines)
        yield "@@"
        yield from (f" {line}" for line in old[first : change.old_start])
        yield from (f"-{line}" for line in old[change.old_start : change.old_end])
        yield from (f"+{line}" for line in new[change.new_start : change.new_end])
        yield from (f" {line}" for line in old[change.old_end : past])
        if past == len(old):
            yield "*** End of File"
    yield "*** End Patch"


@examples(200)
@given(
    old=texts, new=texts, context_lines=st.integers(0, 3), ending=st.sampled_from(["\n", "\r\n"])
)
def test_patch_of_a_difference_gives_the_new_text_or_is_refused(
    old: list[str], new: list[str], context_lines: int, ending: str
) -> None:
    raw = "".join(line + ending for line in old)
    patch = "\n".join(patch_between(old, new, context_lines=context_lines))
    try:
        (change,) = parse_patch(patch)
        assert isinstance(change, Update)
        splices = locate_hunks(LfView(raw), change.hunks, path="f")
    except ToolError:
        return
    assert splice(raw, splices) == "".join(line + ending for line in new)


typographic = st.lists(st.sampled_from(["it’s", "b – c", "“d”", "e", ""]), min_size=1, max_size=12)
edits = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(["drop", "new", "newer"])), max_size=4
)


@examples(200)
@given(old=typographic, changes=edits, context_lines=st.integers(0, 3))
@example(
    old=["b – c"] * 3,
    changes=[(1, "new"), (4, "new"), (4, "new"), (0, "new")],
    context_lines=3,
)
def test_patch_in_plain_characters_keeps_those_of_the_file_or_is_refused(
    old: list[str], changes: list[tuple[int, str]], context_lines: int
) -> None:
    new = list(old)
    for index, change in changes:
        if change == "drop":
            del new[index : index + 1]
        else:
            new.insert(index, change)
    plain = [[to_plain_typography(line) for line in lines] for lines in (old, new)]
    patch = "\n".join(patch_between(plain[0], plain[1], context_lines=context_lines))
    raw = "".join(f"{line}\n" for line in old)
    try:
        (change_of_file,) = parse_patch(patch)
        assert isinstance(change_of_file, Update)
        splices = locate_hunks(LfView(raw), change_of_file.hunks, path="f")
    except ToolError:
        return
    assert splice(raw, splices) == "".join(f"{line}\n" for line in new)


@examples(100)
@given(st.text(alphabet="*@ +-abFileUpdtAMov:\n\r", max_size=60))
def test_any_text_is_a_patch_or_a_sentence(text: str) -> None:
    for patch in (text, f"*** Begin Patch\n{text}\n*** End Patch"):
        try:
            parse_patch(patch)
        except ToolError as error:
            assert str(error).endswith(".")
