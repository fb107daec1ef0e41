from pathlib import Path

import pytest

from agentcli.permissions.command_patterns import MatchResult
from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import PermissionRule, RuleDecision, RuleError, parse_rule
from agentcli.permissions.subject import CallSubject, SubjectFactory
from agentcli.tools.apply_patch import Patch
from agentcli.tools.patch.parser import parse_patch
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict
from tests.unit.permissions import work
from tests.unit.permissions.attacks import DOING_MORE
from tests.unit.permissions.reads import READING

READER_RULES = [
    f"bash({name}:*)"
    for name in (
        *["ls", "cat", "head", "tail", "wc", "grep", "rg", "find", "sort", "uniq", "sed", "awk"],
        *["date", "tree", "printf", "echo", "test", "file", "jq", "xxd", "cut", "tr", "diff"],
        *["stat", "du", "hostname", "ps", "base64", "cd", "pwd", "which", "type", "true", "sleep"],
        *["git diff", "git log", "git show", "git status", "git grep", "git blame", "git ls-files"],
        *["git rev-parse", "git cat-file"],
    )
]


def _rule(text: str, decision: RuleDecision = "allow") -> PermissionRule:
    return parse_rule(text, decision, source="user")


class _Bench:
    """Rules and a workspace, to put lines before."""

    def __init__(self, root: Path, rules: list[PermissionRule], *, cwd: Path | None = None) -> None:
        self.root = root
        place = cwd or root
        prover = ReadProver(
            workspace=root, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: place
        )
        self.subjects = SubjectFactory(workspace=root, cwd=lambda: place)
        self.decider = PolicyDecider(
            rules=rules, find_conditions=lambda: CommandConditions(prover=prover, is_confined=True)
        )

    def bash(self, line: str) -> Verdict:
        subject = self.subjects.build("bash", {"command": line}, effect=Effect.EXECUTE)
        return self.decider.decide(subject, mode="ask")

    def edit(self, path: str, tool: str = "edit_file") -> str:
        subject = self.subjects.build(tool, {"path": path}, effect=Effect.WRITE)
        return self.decider.decide(subject, mode="ask").decision

    def patch(self, text: str) -> Verdict:
        subject = self.subjects.build("apply_patch", {"patch": text}, effect=Effect.WRITE)
        return self.decider.decide(subject, mode="ask")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path.resolve()


def test_everyday_work_is_allowed_by_its_rules(root: Path) -> None:
    bench = _Bench(root, [_rule(text) for text in work.RULES])

    verdicts = {line: bench.bash(line) for line in work.ALLOWED}

    assert {line: v.reason for line, v in verdicts.items() if v.decision != "allow"} == {}


def test_no_line_slips_past_the_rules_for_work(root: Path) -> None:
    bench = _Bench(root, [_rule(text) for text in work.RULES])

    verdicts = {line: bench.bash(line) for line in work.BEYOND}

    assert {line: v.rule for line, v in verdicts.items() if v.decision != "ask"} == {}


def test_no_line_slips_past_the_rules_for_whole_programs(root: Path) -> None:
    bench = _Bench(root, [_rule(text) for text in work.WHOLE_PROGRAMS])

    slipped = [line for line in work.BEYOND_WHOLE_PROGRAMS if bench.bash(line).decision != "ask"]
    stopped = [line for line in work.WITH_WHOLE_PROGRAMS if bench.bash(line).decision != "allow"]

    assert (slipped, stopped) == ([], [])


def test_no_line_slips_past_the_rules_for_readers(root: Path) -> None:
    bench = _Bench(root, [_rule(text) for text in READER_RULES])

    assert [line for line in DOING_MORE if bench.bash(line).decision != "ask"] == []
    assert [line for line in READING if bench.bash(line).decision != "allow"] == []


@pytest.mark.parametrize(
    "text",
    [
        *["bash(env:*)", "bash(nice:*)", "bash(timeout 60:*)", "bash(xargs:*)", "bash(sudo:*)"],
        *["bash(sh -c:*)", "bash(bash -c:*)", "bash(python -c:*)", "bash(python3.12 -c:*)"],
        *["bash(node -e:*)", "bash(perl -e:*)", "bash(eval:*)", "bash(exec:*)", "bash(source:*)"],
        *["bash(.:*)", "bash(command:*)", "bash(builtin:*)", "bash(export:*)", "bash(alias:*)"],
        *["bash(ssh:*)", "bash(watch:*)", "bash(npx:*)", "bash(uv run:*)", "bash(uv run --with:*)"],
        *["bash(docker run:*)", "bash(python -m:*)", "bash(git bisect run:*)", "bash(vim:*)"],
        *["bash(git remote-ext origin:*)", "bash(git submodule -q foreach:*)"],
        *["bash(find . -exec:*)", "bash(/usr/bin/env:*)", "bash(tar --to-command:*)"],
        *["bash(linux64:*)", "bash(/lib64/ld-linux-x86-64.so.2:*)", "bash(choom -n 1:*)"],
    ],
)
def test_allow_rule_that_would_allow_anything_is_refused(text: str) -> None:
    with pytest.raises(RuleError, match=r"instead|name the program"):
        _rule(text)
    assert _rule(text, "deny").decision == "deny"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a rule"),
        ("bash(", "is not a rule"),
        ("bash(pytest:*", "is not a rule"),
        ("Bash(pytest:*)", "Did you mean bash"),
        ("bsh(pytest:*)", "Did you mean bash"),
        ("frobnicate", "unknown tool frobnicate"),
        ("bash()", "empty command"),
        ("bash(npm run *)", r"for example bash\(npm run:\*\)"),
        ("bash(git * main)", "only at the end"),
        ("bash(ls; rm x)", "one rule for each command"),
        ("bash(ls | wc)", "one rule for each command"),
        ("bash(echo $HOME)", r"variable \$… cannot be part"),
        ("bash(echo x > y)", "redirection > cannot be part"),
        ("edit()", "the path is empty"),
        ("edit(../x)", "paths cannot contain .."),
        ("edit(a{b,c})", "braces"),
        ("delegate(x)", "takes no pattern"),
        ("mcp(:x)", "write mcp"),
        ("mcp(a:)", "write mcp"),
    ],
)
def test_rule_that_means_nothing_is_refused_with_the_fix(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        _rule(text, "deny")


@pytest.mark.parametrize("begin", ["git -C", "git -C src", "git -c a=b", "git --no-pager"])
def test_rule_for_git_names_the_command_of_git(begin: str) -> None:
    with pytest.raises(RuleError, match="can be followed by any command"):
        _rule(f"bash({begin}:*)")
    assert _rule("bash(git -C src status:*)").decision == "allow"


def test_project_may_not_allow() -> None:
    with pytest.raises(RuleError, match="a project may only add ask and deny rules"):
        parse_rule("bash(pytest:*)", "allow", source="project")
    assert parse_rule("bash(pytest:*)", "deny", source="project").source == "project"


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        ("git push:*", "git push", MatchResult.YES),
        ("git push:*", "git push origin main", MatchResult.YES),
        ("git push:*", "ls && git push", MatchResult.YES),
        ("git push:*", "git -C sub push", MatchResult.YES),
        ("git push:*", "git -c a=b --no-pager push", MatchResult.YES),
        ("git push:*", "/usr/bin/git push", MatchResult.YES),
        ("git push:*", "GIT push", MatchResult.YES),
        ("git push:*", "git-push origin", MatchResult.YES),
        ("git push:*", "/usr/lib/git-core/git-push", MatchResult.YES),
        ("git push:*", "env git-push", MatchResult.YES),
        ("git push:*", "sh -c '/usr/lib/git-core/git-push origin'", MatchResult.YES),
        ("git push:*", "$x git-push", MatchResult.YES),
        ("git push:*", "git-pull", MatchResult.NO),
        ("git-push:*", "git push", MatchResult.YES),
        ("git push --force:*", "git-push origin --force", MatchResult.YES),
        ("git push:*", "env GIT_DIR=x git push", MatchResult.YES),
        ("git push:*", "timeout 5 git push", MatchResult.YES),
        ("git push:*", "sudo -u x git push", MatchResult.YES),
        ("git push:*", "xargs git push", MatchResult.YES),
        ("git push:*", "echo push | xargs git", MatchResult.MAYBE),
        ("git push:*", "find . -exec git push ';'", MatchResult.YES),
        ("git push:*", "sh -c 'git push'", MatchResult.YES),
        ("git push:*", "bash -lc 'cd x && git push'", MatchResult.YES),
        ("git push:*", "sh -c 'g\"\"it push'", MatchResult.MAYBE),
        ("git push:*", "eval git push", MatchResult.YES),
        ("git push:*", "eval 'git push'", MatchResult.YES),
        ("git push:*", "ssh host 'git push'", MatchResult.YES),
        ("git push:*", "uv run git push", MatchResult.YES),
        ("git push:*", 'python -c \'run(["git", "push"])\'', MatchResult.YES),
        ("git push:*", "python -c 'print(1)'", MatchResult.NO),
        ("git push:*", "echo 'git push' | sh", MatchResult.YES),
        ("git push:*", 'echo \'run(["git", "push"])\' | python3 -', MatchResult.YES),
        ("git push:*", "cat x | base64 -d | bash -s", MatchResult.MAYBE),
        ("git push:*", "cat x | bash /dev/stdin", MatchResult.MAYBE),
        ("git push:*", "bash build.sh", MatchResult.NO),
        ("git push:*", "cat x | python3 count.py", MatchResult.NO),
        ("git push:*", "sed -n '1e git push' x", MatchResult.YES),
        ("git push:*", "awk 'BEGIN{system(\"git push\")}'", MatchResult.YES),
        ("git push:*", "git -c alias.q='!git push' q", MatchResult.YES),
        ("git push:*", 'perl -e \'system("g" . "it push")\'', MatchResult.MAYBE),
        ("git push:*", "env gi? push", MatchResult.YES),
        ("git push:*", "command git push", MatchResult.YES),
        ("git push:*", "nohup git push", MatchResult.YES),
        ("git push:*", "git pus?", MatchResult.YES),
        ("git push:*", "git p origin", MatchResult.MAYBE),
        ("git push:*", "git -C sub --no-pager p", MatchResult.MAYBE),
        ("git push:*", "git -c core.x=y up", MatchResult.MAYBE),
        ("git push:*", "timeout 5 git p", MatchResult.MAYBE),
        ("git push:*", "sh -c 'cd x; git p'", MatchResult.MAYBE),
        ("git push:*", "git config --global alias.p push && git p", MatchResult.MAYBE),
        ("git push:*", "git-p", MatchResult.MAYBE),
        ("git push:*", "git send-pack origin main", MatchResult.MAYBE),
        ("git push:*", "git subtree push -P x origin main", MatchResult.MAYBE),
        ("git push:*", "git remote -v", MatchResult.NO),
        ("git push:*", "git --version", MatchResult.NO),
        ("git pull:*", "git send-pack origin main", MatchResult.NO),
        ("git:*", "git p", MatchResult.YES),
        ("rm:*", "git p", MatchResult.NO),
        ("git push:*", "git log push", MatchResult.NO),
        ("git push:*", "git log --grep push", MatchResult.NO),
        ("git push:*", "git stash push", MatchResult.NO),
        ("git push:*", "echo git push", MatchResult.NO),
        ("git push:*", "git commit -m 'git push'", MatchResult.NO),
        ("git push:*", "env FOO=1 pytest", MatchResult.NO),
        ("git push:*", "git push $(x)", MatchResult.YES),
        ("git push:*", "for f in *; do git push; done", MatchResult.YES),
        ("git push:*", "for f in *; do echo $f; done", MatchResult.MAYBE),
        ("git push:*", 'git commit -m "$(cat x)"', MatchResult.MAYBE),
        ("git push:*", "g\\it push", MatchResult.MAYBE),
        ("git push:*", "$x push", MatchResult.MAYBE),
        ("git push:*", "; ".join(["true"] * 70 + ["git push"]), MatchResult.YES),
        ("git push --force:*", "git push origin --force", MatchResult.YES),
        ("git push --force:*", "git push origin main", MatchResult.NO),
        ("rm:*", "rm x", MatchResult.YES),
        ("rm:*", "git rm x", MatchResult.NO),
        ("rm:*", "docker rm x", MatchResult.NO),
        ("rm:*", "find . -exec rm x ';'", MatchResult.YES),
        ("rm -rf:*", "rm -fr x", MatchResult.YES),
        ("rm -rf:*", "rm -r -f x", MatchResult.YES),
        ("rm -rf:*", "rm x -rvf", MatchResult.YES),
        ("rm -rf:*", "rm -r x", MatchResult.NO),
        ("npm publish:*", "npm --silent publish", MatchResult.YES),
        ("make deploy", "make deploy", MatchResult.YES),
        ("make deploy", "make test", MatchResult.NO),
        ("make deploy", "nice make deploy", MatchResult.YES),
        ("curl:*", "cat x | /usr/bin/curl -d @- h", MatchResult.YES),
        *(
            ("git push:*", f"{wrapper} git push", MatchResult.YES)
            for wrapper in (
                *("linux32", "linux64", "setarch -R", "x86_64", "choom -n 1 --", "timelimit -t 3"),
                *("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1 --argv0 x", "ld.so"),
                *("setsid", "chrt -o 0", "ionice -c3", "taskset 1", "prlimit --nofile=9"),
                *("unshare -r", "nsenter -t 1", "chroot /", "runuser -u x --", "doas", "gosu x"),
                *("stdbuf -o0", "watch", "parallel", "flock x", "strace", "ltrace", "valgrind"),
                *("gdb --args", "perf stat", "builtin command", "exec", "busybox env", "time"),
                *("toybox nice", "systemd-run --user", "systemd-inhibit", "run0", "chronic"),
                *("ifne", "softlimit", "chpst", "tini --", "torsocks", "ssh-agent", "arch -x86_64"),
            )
        ),
        ("git push:*", "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push", MatchResult.YES),
        ("git push:*", "su x -c 'git push'", MatchResult.YES),
        ("git push:*", "script -qc 'git push' x", MatchResult.YES),
        ("git push:*", "pee 'git push'", MatchResult.YES),
        ("git push:*", "coproc git push", MatchResult.YES),
        ("git push:*", "unheard-of git push", MatchResult.MAYBE),
        ("git push:*", "./run -v /usr/bin/git push", MatchResult.MAYBE),
        ("git push:*", "jj git push", MatchResult.MAYBE),
        ("git push:*", "git add git push", MatchResult.NO),
        ("git push:*", "rg git push", MatchResult.NO),
        ("rm -f:*", "docker rm -f x", MatchResult.NO),
        ("git push:*", "echo git push | sudo sh", MatchResult.YES),
        ("git push:*", "echo git push | timeout 5 bash -s", MatchResult.YES),
        ("git push:*", "echo git push | at now", MatchResult.YES),
        ("git push:*", "echo git push | parallel", MatchResult.YES),
        ("git push:*", "echo git push | xargs -n 2 env", MatchResult.YES),
        ("git push:*", "git ls-files | xargs -n 1 wc", MatchResult.NO),
        ("git push:*", "cat x | base64 -d | env sh", MatchResult.MAYBE),
        ("git push:*", "sudo apt install zsh", MatchResult.NO),
        ("git push:*", "nice bash build.sh", MatchResult.NO),
    ],
)
def test_deny_rule_sees_through_wrappers_and_options(
    rule: str, line: str, expected: MatchResult, root: Path
) -> None:
    subject = _Bench(root, []).subjects.build("bash", {"command": line}, effect=Effect.EXECUTE)

    assert _rule(f"bash({rule})", "deny").match_broadly(subject) is expected


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        (
            "src/**",
            ["src/a.py", "src/b/c.py"],
            ["a.py", "vendor/src/a.py", "srcs/a.py", "../src/a"],
        ),
        ("src/*", ["src/a.py"], ["src/b/c.py"]),
        ("*.md", ["README.md", "docs/a.md"], ["a.mdx"]),
        ("./a.py", ["a.py"], ["src/a.py"]),
        ("docs/", ["docs/a", "x/docs/a/b"], ["docsx/a"]),
        ("**/test_?.py", ["test_a.py", "x/y/test_b.py"], ["test_ab.py"]),
        ("src/[ab].py", ["src/a.py"], ["src/c.py"]),
        ("src/[!a].py", ["src/c.py"], ["src/a.py"]),
    ],
)
def test_path_rule_covers_what_its_glob_means(
    pattern: str, covered: list[str], not_covered: list[str], root: Path
) -> None:
    bench = _Bench(root, [_rule(f"edit({pattern})")])

    assert {path: bench.edit(path) for path in covered} == dict.fromkeys(covered, "allow")
    assert {path: bench.edit(path) for path in not_covered} == dict.fromkeys(not_covered, "ask")


def test_path_rule_goes_by_the_real_path(root: Path) -> None:
    (root / "src/out").symlink_to("/etc")
    (root / "docs").symlink_to(root / "src")
    (root / "secret").mkdir()
    (root / "src/in").symlink_to(root / "secret")
    bench = _Bench(root, [_rule("edit(src/**)"), _rule("edit(secret/**)", "deny")])

    paths = ["src/a", "src/out/passwd", "docs/a", "src/in/a", "src/../secret/a", "secret"]
    assert [bench.edit(path) for path in paths] == [
        *["allow", "ask", "allow"],
        *["deny", "deny", "deny"],
    ]


def test_deny_rule_for_paths_minds_neither_case_nor_depth(root: Path) -> None:
    bench = _Bench(
        root, [_rule("edit"), _rule("edit(**/.env*)", "deny"), _rule("edit(k/)", "deny")]
    )

    paths = [".env", "a/.ENV.local", ".env.d/x", "k", "K/x/y", "a/k/b", "env"]
    assert [bench.edit(path) for path in paths] == ["deny"] * 6 + ["allow"]


def test_words_for_groups_of_tools(root: Path) -> None:
    bench = _Bench(root, [_rule("edit(a)"), _rule("write_file(b)", "deny")])
    patch = {"patch": "*** Begin Patch\n*** Update File: a\n*** Add File: c\n*** End Patch"}

    assert [bench.edit("a", tool) for tool in ("edit_file", "write_file")] == ["allow", "allow"]
    assert [bench.edit("b", tool) for tool in ("edit_file", "write_file")] == ["ask", "deny"]
    subject = bench.subjects.build("apply_patch", patch, effect=Effect.WRITE)
    assert bench.decider.decide(subject, mode="ask").decision == "ask"


def test_rule_about_reading_holds_for_commands_that_name_the_path(root: Path) -> None:
    bench = _Bench(root, [_rule("read(**/.env*)", "deny"), _rule("edit(lock)", "deny")])

    lines = ["cat .env", "head -3 src/.env.local", "git show HEAD:.env", "grep x --file=.env"]
    assert [bench.bash(line).decision for line in lines] == ["deny"] * 4
    assert [bench.bash(line).decision for line in ("cat lock", "rm lock", "ls")] == [
        *["allow", "deny", "allow"]
    ]
    lines = ["wc -l < .env", "wc -l <.env | sort", "sort < src/../.env >/dev/null"]
    assert [bench.bash(line).decision for line in lines] == ["deny"] * 3
    assert _Bench(root, [_rule("read(src/k)", "deny")], cwd=root / "src").bash(
        "cat k"
    ).decision == ("deny")


def test_rule_that_asks_about_reading_holds_for_what_a_glob_matches(root: Path) -> None:
    (root / "keys").mkdir()
    (root / "keys/one.pem").touch()
    (root / "src/one.md").touch()
    bench = _Bench(root, [_rule("read(keys/**)", "ask"), _rule("read(src/*.pem)", "deny")])
    lines = ["cat */one.pem", "cat k*/*", "head -1 key?/one.pem src/one.md"]
    assert [bench.bash(line).rule for line in lines] == ["ask read(keys/**)"] * 3
    lines = ["cat */one.md", "ls k*", "cat '*/one.pem'"]
    assert [bench.bash(line).decision for line in lines] == ["allow"] * 3


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_rule_about_reading_holds_for_edits_that_show_lines(
    decision: RuleDecision, root: Path
) -> None:
    (root / "link").symlink_to(".env")
    bench = _Bench(root, [_rule("edit"), _rule("read(**/.env*)", decision)])
    patches = {
        "*** Update File: src/.env\n": decision,
        "*** Update File: .env\n*** Move to: a\n": decision,
        "*** Add File: a\n+x\n*** Update File: link\n": decision,
        "*** Update File: a\n*** Move to: .env\n": "allow",
        "*** Add File: .env\n+x\n": "allow",
        "*** Delete File: .env\n": "allow",
    }

    assert [bench.edit(path) for path in (".env", "link", "a")] == [decision, decision, "allow"]
    assert bench.edit(".env", "write_file") == "allow"
    assert {text: bench.patch(text).decision for text in patches} == patches
    says = {"deny": "forbids reading it", "ask": "requires approval to read it"}[decision]
    assert bench.patch("*** Update File: .env\n").reason == (
        f"rule {decision} read(**/.env*) {says}, and apply_patch needs to know what is in it"
    )
    parsed = Patch(
        changes=parse_patch("*** Begin Patch\n*** Update File: .env\n@@\n-a\n*** End Patch")
    )
    subject = bench.subjects.build("apply_patch", parsed, effect=Effect.WRITE)
    assert bench.decider.decide(subject, mode="auto").decision == decision


def test_rule_that_allows_reading_allows_no_edit(root: Path) -> None:
    bench = _Bench(root, [_rule("read"), _rule("grep(a)", "deny"), _rule("read_file(a)", "deny")])

    assert bench.edit("a") == "ask"
    assert bench.patch("*** Update File: a\n").decision == "ask"


def test_mcp_rules_are_about_servers_and_their_tools(root: Path) -> None:
    bench = _Bench(root, [_rule("mcp(github:get_*)"), _rule("mcp(mail)", "deny")])

    def decision(name: str, source: str) -> str:
        subject = bench.subjects.build(name, {}, effect=Effect.EXECUTE, source=source)
        return bench.decider.decide(subject, mode="ask").decision

    assert decision("mcp__github__get_issue", "mcp github") == "allow"
    assert decision("github_get_issue", "mcp github") == "allow"
    assert decision("get_issue", "mcp github") == "allow"
    assert decision("mcp__github__close_issue", "mcp github") == "ask"
    assert decision("mcp__github__get_issue", "mcp other") == "ask"
    assert decision("mcp__mail__send", "mcp mail") == "deny"
    assert decision("get_issue", "built-in") == "ask"


def test_tool_of_a_server_cannot_pass_for_our_own(root: Path) -> None:
    bench = _Bench(root, [_rule("bash"), _rule("edit")])

    for name, args in (("bash", {"command": "ls"}), ("edit_file", {"path": "a"})):
        subject = bench.subjects.build(name, args, effect=Effect.EXECUTE, source="mcp evil")
        verdict = bench.decider.decide(subject, mode="ask")
        assert verdict.decision == "ask"


def test_bare_rule_is_about_every_command(root: Path) -> None:
    for text in ("bash", "bash(*)", "bash(:*)"):
        bench = _Bench(root, [_rule(text)])
        assert bench.bash("for f in *; do rm $f; done").decision == "allow"
    assert _Bench(root, [_rule("bash", "deny")]).bash("ls").decision == "deny"


def test_relative_program_is_the_one_in_the_root(root: Path) -> None:
    rules = [_rule("bash(./run.sh:*)")]

    assert _Bench(root, rules).bash("./run.sh x").decision == "allow"
    assert _Bench(root, rules, cwd=root / "src").bash("./run.sh x").decision == "ask"


def test_program_of_the_workspace_is_not_what_a_rule_means(root: Path) -> None:
    prover = ReadProver(workspace=root, resolve=lambda name: root / "bin" / name, cwd=lambda: root)
    decider = PolicyDecider(
        rules=[_rule("bash(pytest:*)")],
        find_conditions=lambda: CommandConditions(prover=prover, is_confined=True),
    )
    subject = SubjectFactory(workspace=root, cwd=lambda: root).build(
        "bash", {"command": "pytest -q"}, effect=Effect.EXECUTE
    )

    verdict = decider.decide(subject, mode="ask")

    assert (verdict.decision, verdict.reason) == (
        "ask",
        "pytest is a file in the workspace, not an installed program",
    )


def test_reason_says_which_part_no_rule_matches(root: Path) -> None:
    bench = _Bench(root, [_rule("bash(pytest:*)"), _rule("bash(git log:*)")])

    assert bench.bash("pytest && make").reason == "no rule allows make"
    assert bench.bash("git log --output=x").reason == (
        "rule allow bash(git log:*) does not cover this: git with option --output is not read-only"
    )
    assert bench.bash("ls $(pwd)").reason == (
        "it contains command substitution $(…), so no rule for a program applies"
    )


def browse(page: str, *acts: str, effect: Effect = Effect.NETWORK) -> CallSubject:
    root = Path("/w")
    return CallSubject(
        tool="computer", effect=effect, root=root, cwd=root, page=page, acts=frozenset(acts)
    )


@pytest.mark.parametrize(
    ("rule", "allowed", "others"),
    [
        (
            "computer(shop.example.org)",
            [browse("shop.example.org:443", "click", "type")],
            [browse("shop.example.org:8443", "look"), browse("example.org:443", "look")],
        ),
        (
            "computer(look,navigate *.example.org)",
            [browse("a.example.org:443", "look"), browse("a.example.org:80", "navigate")],
            [browse("a.example.org:443", "look", "click")],
        ),
        (
            "computer(look)",
            [browse("x.org:443", "look")],
            [browse("x.org:443", "click"), browse("127.0.0.1:80", "look")],
        ),
        ("computer", [browse("x.org:443", "type")], [browse("localhost:8000", "look")]),
        ("network(x.org)", [], [browse("x.org:443", "look")]),
        ("web(x.org)", [], [browse("x.org:443", "look")]),
    ],
)
def test_rules_for_the_browser(
    rule: str, allowed: list[CallSubject], others: list[CallSubject]
) -> None:
    allow = parse_rule(rule, "allow", source="user")
    assert all(map(allow.permits_call, allowed))
    assert not any(map(allow.permits_call, others))


@pytest.mark.parametrize(
    "rule", ["network(x.org)", "computer(type x.org)", "computer", "effect(network)"]
)
def test_rules_deny_the_browser_widely(rule: str) -> None:
    deny = parse_rule(rule, "deny", source="project")
    assert deny.match_broadly(browse("x.org:8443", "click", "type")) is MatchResult.YES
    elsewhere = browse("y.org:443", "click", effect=Effect.READ)
    assert (deny.match_broadly(elsewhere) is MatchResult.YES) == (rule == "computer")


@pytest.mark.parametrize("rule", ["computer(touch x.org)", "computer(look,touch x.org)"])
def test_unknown_action_in_the_browser_is_refused(rule: str) -> None:
    with pytest.raises(RuleError, match="look, click, type, navigate"):
        parse_rule(rule, "allow", source="user")


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git rebase", "git rebase -ixtouch main"),
        ("git fetch", "git fetch --upload-p ./x o"),
        ("git archive", "git archive --remote=ext::x HEAD"),
        ("git svn", "git svn --authors-prog=x fetch"),
        ("git pull", "git pull -sevil"),
        ("git difftool", "git difftool -yx ./x"),
        ("tar cf", "tar cf a b --use-com=x"),
        ("rsync -a", "rsync -a --rsh=x a b"),
        ("go test", "go test -exec x ./..."),
        ("npm test", "npm test --script-shell=./x"),
        ("cargo test", "cargo test --config build.rustc-wrapper=x"),
        ("pylint", "pylint --init-hook=x src"),
        ("prettier", "prettier --plugin=./x ."),
        ("protoc", "protoc --plugin=x a.proto"),
        ("openssl", "openssl dgst -engine x a"),
        ("kubectl get", "kubectl get --kubeconfig=x pods"),
        ("gcc", "gcc -wrapper x a.c"),
        ("fd", "fd foo --exec rm"),
    ],
)
def test_rule_for_a_program_does_not_reach_an_option_that_runs_another(
    rule: str, command: str, tmp_path: Path
) -> None:
    bench = _Bench(tmp_path, [_rule(f"bash({rule}:*)")])
    assert [bench.bash(line).decision for line in (f"{rule} a", command)] == ["allow", "ask"]
