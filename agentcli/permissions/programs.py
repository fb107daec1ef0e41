"""Programs that run other programs, and what a rule for them would really allow.

An allow rule names a program by the first words of a command. If those words are a wrapper, an
interpreter or a launcher, the words after them say what runs. So the rule must include more words,
or the command must be allowed as a whole.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from agentcli.permissions.reader_options import split_names
from agentcli.system.lazy import compile_later

_WRAPPERS = split_names(
    """env genv nice gnice ionice chrt taskset timeout gtimeout timelimit nohup gnohup setsid stdbuf
    gstdbuf unbuffer xargs gxargs parallel sudo doas su sg newgrp runuser pkexec gosu su-exec chroot
    gchroot unshare nsenter bwrap firejail systemd-run systemd-inhibit systemd-cat systemd-nspawn
    run0 start-stop-daemon daemon daemonize tini dumb-init flock lckdo setlock script expect strace
    ltrace sotruss gdb cgdb ddd lldb valgrind perf heaptrack memusage catchsegv entr watch watchexec
    at batch crontab ssh sshpass ssh-agent mosh rsh socat nc ncat netcat screen tmux dtach abduco
    busybox toybox time gtime multitime vi vim nvim view ex ed emacs nano less more man info gawk
    mawk nawk m4 rlwrap cpulimit prlimit choom schedtool numactl hwloc-bind trickle logsave setarch
    arch linux32 linux64 i386 i486 i586 i686 x86_64 uname26 setpriv capsh cgexec aa-exec runcon
    softlimit setuidgid envuidgid envdir chpst s6-setuidgid s6-softlimit s6-envdir chronic ifne
    mispipe pee zrun xvfb-run xinit startx xterm dbus-run-session dbus-launch fakeroot fakechroot
    proot eatmydata faketime torsocks torify tsocks proxychains proxychains4 caffeinate sandbox-exec
    sqlite3 psql mysql"""
)
_LOADER = compile_later(r"ld[\w.-]*\.so(?:\.\d+)*", re.ASCII)
"""The program that loads others: `/lib64/ld-linux-x86-64.so.2 /usr/bin/git`."""

SHELL_STATE = split_names(
    """eval exec source . command builtin trap alias unalias set shopt export declare typeset
    readonly local unset hash enable bind complete compgen mapfile readarray read let pushd popd
    umask ulimit fc history"""
)
"""Builtins that run their words, or change the meaning of later commands."""

SHELLS = split_names("sh bash rbash dash ash hush zsh ksh mksh oksh yash posh fish csh tcsh pwsh")

INTERPRETERS = SHELLS | split_names(
    """python pypy node nodejs deno bun perl ruby php lua luajit Rscript julia tclsh osascript
    groovy scala jshell elixir swift guile racket tsx ts-node"""
)
"""Programs that run a script file, and code from options or standard input."""

LAUNCHERS = tuple(
    tuple(launcher.split())
    for launcher in (
        *("npx", "bunx", "pnpx", "uvx", "pipx run", "uv run", "uv tool run", "poetry run"),
        *("pipenv run", "pdm run", "hatch run", "rye run", "conda run", "mamba run", "bundle exec"),
        *("npm exec", "npm x", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "bun x"),
        *("docker run", "docker exec", "docker compose run", "docker compose exec", "podman run"),
        *("podman exec", "kubectl exec", "kubectl run", "nix run", "nix shell", "nix develop"),
        *("nix-shell", "direnv exec", "mise exec", "mise x", "asdf exec", "rbenv exec"),
        *("pyenv exec", "dotenv", "doppler run", "op run", "vagrant ssh", "heroku run"),
        *("adb shell", "git bisect run", "git submodule foreach", "git filter-branch"),
        *("npm init", "npm create", "npm explore", "yarn create", "pnpm create", "bun create"),
        *("git merge-index", "git submodule--helper foreach", "git hook run", "git shell"),
        *("cmake -E", "cargo watch", "go tool"),
        *("python -m", "deno run", "deno eval", "bun run", "corepack", "hyperfine"),
    )
)
"""Commands that run the program named by the next word."""

_RUNNING_OPTIONS = split_names(
    """exec exec-batch rsh rsync-path pre to-command use-compress-program compress-program
    checkpoint-action info-script new-volume-script rsh-command rmt-command upload-pack receive-pack
    ext-diff open-files-in-pager textconv extcmd script-shell node-options toolexec vettool eval
    use-askpass execute unzip-command hostname-bin config-env exec-path"""
)
_RUNNING_OPTIONS_OF = {
    "git": split_names(
        """template sendmail-cmd smtp-server to-cmd cc-cmd header-cmd httpd browser access-hook
        authors-prog"""
    ),
    "cargo": split_names("config"),
    "mypy": split_names("python-executable"),
    "gradlew": split_names("init-script include-build I"),
    "gradle": split_names("init-script include-build I"),
    "ctest": split_names("build-and-test S"),
    "cmake": split_names("P"),
    "rsync": split_names("daemon"),
    "pip": split_names("python"),
    "tar": split_names("files-from"),
    "pylint": split_names("init-hook load-plugins"),
    "prettier": split_names("plugin"),
    "protoc": split_names("plugin"),
    "ld": split_names("plugin"),
    "openssl": split_names("engine provider-path"),
    "kubectl": split_names("kubeconfig"),
}
"""Options, by program, that make it run a file named in the words."""
_RUNNING_LETTERS = {"tar": "IFT", "rsync": "e", "fd": "xX", "fdfind": "xX", "wget": "e", "zip": "T"}
_GIT_RUNNING_COMMANDS = split_names("remote-ext remote-fd instaweb for-each-repo")
"""Git commands where any word may name what they run."""
_GIT_RUNNING_LETTERS = {"rebase": "x", "clone": "uc", "difftool": "x", "archive": "o"}
_COMPILER = compile_later(
    r"(?:.*-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|gfortran)(?:-[0-9.]+)?", re.ASCII
)
_RUNNING_WORD_OF_COMPILER = compile_later(
    r"-B|@|--?(?:wrapper|specs|fplugin|iplugindir|Xclang|ld-path|fuse-ld=.*/)|-.*-plugin"
)
"""Options that tell a compiler where to find its own parts or code to load. The content of a file
can have the same effect.
"""
_HAVE_STRATEGIES = split_names("merge pull rebase cherry-pick revert")
_SIGN_OFF_BY_S = split_names("cherry-pick revert")
_OWN_STRATEGIES = split_names("ort recursive resolve octopus ours subtree")
_STRATEGY = compile_later(r"(?:-[a-ln-rt-zA-EG-RT-WYZ]*s|--strategy(?:=|$))(.*)")
"""The strategy option, not after a letter that takes the rest of its word as a value: `-Xours`."""
_TAKE_CODE = split_names("find gfind bfs fd fdfind sed gsed awk make gmake tar gtar")
TAKE_WORDS = split_names("xargs gxargs parallel")
"""Programs that get further words for a command from standard input."""
_TAKE_JOBS = split_names("at batch")
_ABBREVIATE_OPTIONS = split_names("tar gtar wget git zip")
_SHORTEST_ABBREVIATION = 2
_DASHED_GIT = "git-"
_GIT_COMMANDS = split_names(
    """add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file
    check-attr check-ignore check-mailmap check-ref-format checkout checkout-index cherry
    cherry-pick clean clone column commit commit-graph commit-tree config count-objects credential
    credential-cache credential-store daemon describe diagnose diff diff-files diff-index diff-pairs
    diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg
    for-each-ref for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object
    help hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb
    interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge
    merge-base merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive
    merge-resolve merge-subtree merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes
    pack-objects pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push quiltimport
    range-diff read-tree rebase receive-pack reflog refs remote remote-ext remote-fd remote-ftp
    remote-ftps remote-http remote-https repack replace replay request-pull rerere reset restore
    rev-list rev-parse revert rm send-email send-pack shell shortlog show show-branch show-index
    show-ref sparse-checkout stage stash status stripspace submodule subtree switch symbolic-ref tag
    unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-pack
    var verify-commit verify-pack verify-tag version whatchanged worktree write-tree"""
)
"""The commands that git brings: no alias can have their names."""
_GIT_OPTIONS_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"}
)
_GIT_DOES_ALSO = {"push": split_names("send-pack http-push subtree remote-http remote-https")}
"""Other commands of git that do the same, by the command that people know."""


def get_program_name(word: str) -> str:
    """Return the program's name without its directory, and `python` for `python3.12`."""
    name = (word.rstrip("/").rpartition("/")[2] or word).removesuffix(".exe")
    return name.rstrip("0123456789.") if name.startswith(("python", "pypy", "lua")) else name


def split_dashed_git(argv: Sequence[str]) -> tuple[str, ...]:
    """Return `git push` for `git-push`, the program of that name that git brings."""
    name = get_program_name(argv[0])
    if not name.startswith(_DASHED_GIT):
        return tuple(argv)
    return ("git", name.removeprefix(_DASHED_GIT), *argv[1:])


def may_be_in_git(command: str, argv: Sequence[str]) -> bool:
    """Return whether words that run git may run this command by another name, such as an alias."""
    words = iter(split_dashed_git(argv))
    if get_program_name(next(words)) != "git":
        return False
    for word in words:
        if word in _GIT_OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word not in _GIT_COMMANDS or word in _GIT_DOES_ALSO.get(command, ())
    return False


def is_wrapper(name: str) -> bool:
    """Return whether a program runs what its words name or what is typed into it."""
    return name in _WRAPPERS or _LOADER.fullmatch(name) is not None


def runs_others(program: str) -> bool:
    name = get_program_name(program)
    return is_wrapper(name) or name in SHELL_STATE or name in INTERPRETERS


def may_run_others(argv: Sequence[str]) -> bool:
    """Return whether some of these words may name a program, or be code for one."""
    argv = split_dashed_git(argv)
    return (
        runs_others(argv[0])
        or get_program_name(argv[0]) in _TAKE_CODE
        or find_launcher(argv) is not None
        or find_running_option(argv, after=1) is not None
        or (get_program_name(argv[0]) == "git" and any(word.startswith("-c") for word in argv[1:2]))
    )


def find_launcher(argv: Sequence[str]) -> tuple[str, ...] | None:
    """Return the launcher that these words begin with, or None."""
    begin = (get_program_name(argv[0]), *argv[1:])
    lengths = (_measure_launcher(one, begin) for one in LAUNCHERS if one[0] == begin[0])
    return next((begin[:length] for length in lengths if length), None)


def _measure_launcher(launcher: Sequence[str], words: Sequence[str]) -> int:
    """Return how many words the launcher takes; 0 if the words do not begin with it.

    Options between its own words count, also with a value.
    """
    at = 0
    for expected in launcher:
        while words[at : at + 1] != (expected,):
            if at >= len(words) or not words[at].startswith("-"):
                return 0
            has_value = (
                words[at + 1 : at + 2] not in ((expected,), ()) and words[at + 1][0:1] != "-"
            )
            at += 2 if has_value else 1
        at += 1
    return at


def find_running_option(argv: Sequence[str], *, after: int) -> str | None:
    """Return an option from word number `after` on that makes the program run another one."""
    whole = split_dashed_git(argv)
    argv, after = whole, after + len(whole) - len(argv)
    program = get_program_name(argv[0])
    if _COMPILER.fullmatch(program):
        return next(filter(_RUNNING_WORD_OF_COMPILER.match, argv[after:]), None)
    if program == "git" and (found := _find_running_command(*argv[1:])):
        return found
    return _find_running_word(program, argv, after=after)


def _find_running_word(program: str, argv: Sequence[str], *, after: int) -> str | None:
    letters = _RUNNING_LETTERS.get(program, "")
    if program == "git" and len(argv) > 1:
        letters = _GIT_RUNNING_LETTERS.get(argv[1], "")
    for index, word in enumerate(argv[after:], after):
        name = word.lstrip("-").partition("=")[0]
        if program == "git" and word.rpartition("=")[2].startswith("ext::"):
            return word
        if program == "tar" and _runs_without_dash(word, is_first=index == 1):
            return word
        if program == "make" and re.search(r"(?:^|=|^-f)(?:-|/dev/stdin|/proc/.*)$", word):
            return word
        if word.startswith("-") and _is_running_option(name, program):
            return word
        if re.match(r"-[A-Za-z]", word) and any(letter in word for letter in letters):
            return word
    return None


def _find_running_command(command: str = "", *words: str) -> str | None:
    """Return a git command that runs others, or a strategy that is not git's own but a program."""
    if command in _GIT_RUNNING_COMMANDS:
        return command
    if command not in _HAVE_STRATEGIES:
        return None
    for word, following in pairwise((*words, "")):
        found = _STRATEGY.fullmatch(word)
        signs_off = command in _SIGN_OFF_BY_S and not word.startswith("--")
        if found and not signs_off and (found[1] or following) not in _OWN_STRATEGIES:
            return word
    return None


def _runs_without_dash(word: str, *, is_first: bool) -> bool:
    """Return whether a word of tar without a dash runs a program.

    `tar cfI x program y` does, and so does `tar xf host:x`, which a program fetches.
    """
    if word.startswith("-"):
        return False
    return ":" in word or (is_first and any(letter in word for letter in _RUNNING_LETTERS["tar"]))


def _is_running_option(name: str, program: str) -> bool:
    if name in _RUNNING_OPTIONS or name in _RUNNING_OPTIONS_OF.get(program, ()):
        return True
    may_be_short = program in _ABBREVIATE_OPTIONS and len(name) >= _SHORTEST_ABBREVIATION
    options = _RUNNING_OPTIONS | _RUNNING_OPTIONS_OF.get(program, frozenset())
    return may_be_short and any(option.startswith(name) for option in options)


def is_script(word: str) -> bool:
    """Return whether an interpreter takes this word for a script file, and for nothing else."""
    return not word.startswith(("-", "/dev/", "/proc/"))


def reads_code(argv: Sequence[str]) -> bool:
    """Return whether this reads a program from standard input, as an interpreter without a script.

    A wrapper does if it runs one. The first words may be the wrapper's own: `timeout 5 bash`."""
    name = get_program_name(argv[0])
    if is_wrapper(name):
        plain = [at for at, word in enumerate(argv) if at and not word.startswith("-")]
        takes_commands = name in _TAKE_JOBS or (name == "parallel" and not plain)
        return takes_commands or any(
            _interprets_input(argv[at:])
            or (name in TAKE_WORDS and is_wrapper(get_program_name(argv[at])))
            for at in plain[:2]
        )
    return _interprets_input(argv)


def _interprets_input(argv: Sequence[str]) -> bool:
    is_interpreter = get_program_name(argv[0]) in INTERPRETERS
    return is_interpreter and not any(is_script(word) for word in argv[1:])


# The words of a command that a rule for it should name


_ANY_WORDS_ARE_FINE = split_names(
    """pytest tox nox ruff mypy pyright black isort flake8 pylint coverage jest vitest mocha eslint
    prettier tsc rspec rubocop phpunit ctest shellcheck gofmt rustfmt clang-format"""
)
_HAVE_SUBCOMMANDS = split_names(
    """git npm pnpm yarn bun cargo go make just task pip uv poetry gh docker podman kubectl
    terraform dotnet mvn gradle bundle rails mix composer apt brew"""
)
_RUN_NAMED_SCRIPTS = split_names("npm pnpm yarn bun")
_DESTROYING = {
    "push": split_names(
        "-f --force --force-with-lease --force-if-includes -d --delete --mirror --prune"
    ),
    "reset": split_names("--hard --merge --keep"),
    "clean": split_names("-f --force"),
    "branch": split_names("-D -d --delete -f --force -M -C"),
    "checkout": split_names("-- . -f --force -B"),
    "switch": split_names("-f --force --discard-changes -C"),
    "restore": split_names(". -- -W --worktree"),
    "tag": split_names("-d --delete -f --force"),
    "stash": split_names("drop clear"),
    "reflog": split_names("expire delete"),
    "worktree": split_names("remove"),
}
"""Words of git commands that destroy something for good."""


def find_beginning(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that say what the command is about; empty if all of them do.

    A rule for them is narrow: a known test or build tool with any words, or a command with its
    subcommand."""
    program = get_program_name(argv[0])
    if program == "git" and _destroys(argv[1:]):
        return ()
    if launcher := find_launcher(argv):
        return argv[: len(launcher) + 1]
    if argv[0] in _ANY_WORDS_ARE_FINE:
        return argv[:1]
    if argv[0] in _HAVE_SUBCOMMANDS and len(argv) > 1 and not argv[1].startswith("-"):
        return argv[:3] if program in _RUN_NAMED_SCRIPTS and argv[1] == "run" else argv[:2]
    return argv[:2] if program in INTERPRETERS and len(argv) > 1 else ()


def _destroys(words: tuple[str, ...]) -> bool:
    destroying = _DESTROYING.get(words[0], frozenset()) if words else frozenset()
    for word in words[1:]:
        letters = [f"-{letter}" for letter in word[1:]] if re.match(r"-[A-Za-z]", word) else []
        if word.partition("=")[0] in destroying or destroying & set(letters):
            return True
    # In a push, `+main` forces and `:main` deletes.
    return words[:1] == ("push",) and any(word.startswith(("+", ":")) for word in words[2:])
