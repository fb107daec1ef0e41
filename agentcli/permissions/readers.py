"""The programs that are known to read, each with the words with which it still only reads.

Reading may reach outside the workspace: the sandbox decides what can be read at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from agentcli.permissions import git_reads, reader_languages
from agentcli.permissions.reader_options import (
    ReaderOptions,
    Unproven,
    refuse_globs,
    refuse_unsafe_globs,
    split_names,
)
from agentcli.permissions.shell import ShellWord


@dataclass(frozen=True, slots=True)
class ReaderForm:
    """A program whose words are ordinary options and operands."""

    options: str = ""
    """The options in the notation of `ReaderOptions.parse`."""
    most: int | None = None
    """The largest number of operands. `uniq`, for example, writes to its second one."""
    harmless: bool = False
    """True if no option can do more than read, so a glob may match a name like an option."""

    def __call__(self, words: Sequence[ShellWord]) -> None:
        if self.most is not None:
            refuse_globs(words)
        refuse_unsafe_globs(words, may_become_options=self.harmless)
        operands = _options(self.options).operands(words)
        if operands and self.most is not None:
            # Not every version of a program looks for options after the first operand.
            rest = words[list(words).index(operands[0]) :]
            if len(rest) > self.most:
                raise Unproven(f"operand {rest[self.most].text}")


@cache
def _options(notation: str) -> ReaderOptions:
    return ReaderOptions.parse(notation)


def _any_words(words: Sequence[ShellWord]) -> None:
    """Accept all words: the program only prints or ignores them."""


def _numbers_only(words: Sequence[ShellWord]) -> None:
    for word in words:
        if not word.text.removesuffix("s").replace(".", "", 1).isdecimal():
            raise Unproven(f"operand {word.text}")


def _only(*forms: str) -> Callable[[Sequence[ShellWord]], None]:
    """Return a check that accepts exactly one of these forms and nothing else."""

    def check(words: Sequence[ShellWord]) -> None:
        given = " ".join(word.text for word in words)
        if given not in forms:
            raise Unproven(f"arguments other than {' or '.join(forms) or 'none'}")

    return check


def _command(words: Sequence[ShellWord]) -> None:
    """Accept `command -v NAME`, which shows where a program is. `command NAME` runs it."""
    if not words or words[0].text not in ("-v", "-V"):
        raise Unproven("command without -v")
    refuse_globs(words)
    _options("").operands(words[1:])


VERSION_ONLY = split_names("bash clang cmake g++ gcc make node perl python python3 ruby")
"""Programs that do many things, of which only printing their version is reading."""

_GREP = ReaderForm(
    """-EFGPabchHiIlLnoqrRsTUvVwxyZz -e: -f: -m: -A: -B: -C: -d: -D: -#
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp: --file: --ignore-case
    --no-ignore-case --word-regexp --line-regexp --null-data --no-messages --invert-match
    --max-count: --byte-offset --line-number --line-buffered --with-filename --no-filename --label:
    --only-matching --quiet --silent --binary-files: --text --directories: --devices: --recursive
    --dereference-recursive --include: --exclude: --exclude-from: --exclude-dir:
    --files-without-match --files-with-matches --count --initial-tab --null --before-context:
    --after-context: --context: --color? --colour? --version --help""",
    harmless=True,
)
_DIGEST = ReaderForm(
    "-bctwz --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn"
)

READERS: Mapping[str, Callable[[Sequence[ShellWord]], None]] = {
    "ls": ReaderForm(
        """-aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --author --escape
        --block-size: --color? --directory --file-type --format: --full-time --classify?
        --group-directories-first --no-group --human-readable --si --hide: --inode --ignore:
        --dereference --numeric-uid-gid --literal --quote-name --reverse --recursive --size --sort:
        --time: --time-style: --width: --zero --version --help""",
        harmless=True,
    ),
    "cat": ReaderForm(
        """-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank
        --show-tabs --show-nonprinting --version --help""",
        harmless=True,
    ),
    "head": ReaderForm(
        "-qvz -c: -n: -# --bytes: --lines: --quiet --silent --verbose --version --help",
        harmless=True,
    ),
    "tail": ReaderForm(
        """-fFqvz -c: -n: -s: -# --bytes: --lines: --follow? --quiet --silent --verbose --retry
        --version --help""",
        harmless=True,
    ),
    "wc": ReaderForm(
        "-cmlLw --bytes --chars --lines --words --max-line-length --version --help", harmless=True
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": ReaderForm(
        """-abcFhHiIlLnNopPqsSuUvVwx0 -A: -B: -C: -e: -E: -f: -g: -j: -m: -M: -r: -t: -T: -d:
        --text --after-context: --before-context: --context: --byte-offset --case-sensitive --color:
        --colors: --column --context-separator: --count --count-matches --crlf --encoding: --engine:
        --file: --files --files-with-matches --files-without-match --fixed-strings --follow --glob:
        --glob-case-insensitive --heading --no-heading --hidden --no-hidden --iglob: --ignore-case
        --ignore-file: --include-zero --invert-match --json --line-number --no-line-number
        --line-regexp --max-columns: --max-columns-preview --max-count: --max-depth: --max-filesize:
        --multiline --multiline-dotall --no-config --no-filename --no-ignore --no-ignore-dot
        --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-parent --no-ignore-vcs
        --no-messages --no-require-git --null --null-data --one-file-system --only-matching
        --passthru --pcre2 --pretty --quiet --regexp: --replace: --smart-case --sort: --sortr:
        --stats --threads: --trim --type: --type-not: --type-list --unrestricted --vimgrep
        --with-filename --word-regexp --version --help"""
    ),
    "find": reader_languages.find,
    "git": git_reads.git,
    "sed": reader_languages.sed,
    "awk": reader_languages.awk,
    "jq": reader_languages.jq,
    "test": reader_languages.condition,
    "[": reader_languages.condition,
    "printf": reader_languages.printf,
    "date": reader_languages.date,
    "echo": _any_words,
    "true": _any_words,
    "false": _any_words,
    ":": _any_words,
    "pwd": ReaderForm("-LP", most=0),
    "sleep": _numbers_only,
    "stat": ReaderForm(
        "-Lft -c: --dereference --file-system --format: --printf: --terse --version"
    ),
    "file": ReaderForm(
        """-bhiklLNnrs0 -F: --brief --dereference --no-dereference --mime --mime-type
        --mime-encoding --keep-going --separator: --extension --raw --print0 --version"""
    ),
    "du": ReaderForm(
        """-0abchHDkLlmPSsx -B: -d: -t: -X: --all --apparent-size --block-size: --bytes --total
        --max-depth: --human-readable --inodes --si --summarize --threshold: --time? --exclude:
        --one-file-system --version"""
    ),
    "df": ReaderForm(
        """-ahHiklPTv -B: -t: -x: --all --block-size: --human-readable --si --inodes --local
        --output? --portability --total --type: --print-type --exclude-type: --version"""
    ),
    "sort": ReaderForm(
        """-bdfghiMnRrVcCmsuz -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case
        --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort
        --random-sort --reverse --sort: --version-sort --check? --key: --merge --stable
        --buffer-size: --field-separator: --parallel: --unique --zero-terminated --version"""
    ),
    "uniq": ReaderForm(
        """-cdDiuz -f: -s: -w: --count --repeated --all-repeated? --group? --ignore-case --unique
        --skip-fields: --skip-chars: --check-chars: --zero-terminated --version""",
        most=1,
    ),
    "cut": ReaderForm(
        """-nsz -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement
        --only-delimited --output-delimiter: --zero-terminated --version"""
    ),
    "tr": ReaderForm("-cCdst --complement --delete --squeeze-repeats --truncate-set1 --version"),
    "basename": ReaderForm("-az -s: --multiple --suffix: --zero"),
    "dirname": ReaderForm("-z --zero"),
    "realpath": ReaderForm(
        """-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet
        --relative-to: --relative-base: --strip --no-symlinks --zero"""
    ),
    "readlink": ReaderForm(
        """-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline
        --quiet --silent --verbose --zero"""
    ),
    "which": ReaderForm("-as --all"),
    "type": ReaderForm("-afptP"),
    "command": _command,
    "diff": ReaderForm(
        """-abBcdeEinNpqrstTuwyZ -C: -F: -I: -L: -S: -U: -W: -x: -X: --brief --color?
        --context? --unified? --exclude: --exclude-from: --expand-tabs --ignore-all-space
        --ignore-blank-lines --ignore-case --ignore-matching-lines: --ignore-space-change
        --ignore-trailing-space --label: --left-column --minimal --new-file --no-dereference
        --normal --recursive --report-identical-files --show-c-function --side-by-side
        --strip-trailing-cr --suppress-common-lines --text --width: --version"""
    ),
    "cmp": ReaderForm(
        "-bls -i: -n: --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent"
    ),
    "comm": ReaderForm("-123z --check-order --nocheck-order --output-delimiter: --total"),
    "join": ReaderForm("-iz -a: -e: -j: -o: -t: -v: -1: -2: --header --ignore-case --check-order"),
    "paste": ReaderForm("-sz -d: --delimiters: --serial --zero-terminated"),
    "fold": ReaderForm("-bs -w: --bytes --spaces --width:"),
    "nl": ReaderForm(
        "-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --number-width:"
    ),
    "tac": ReaderForm("-br -s: --before --regex --separator:"),
    "rev": ReaderForm(),
    "column": ReaderForm("-tLxJn -s: -o: -c: -N: -H: -R: --table --separator: --output-separator:"),
    "od": ReaderForm("-abcdfiloxsv -A: -j: -N: -t: -w? --address-radix: --format: --read-bytes:"),
    "hexdump": ReaderForm("-bcCdoxv -n: -s: -e: --canonical --length: --skip:"),
    "xxd": ReaderForm("-abeipu -c: -g: -l: -s:", most=1),
    "strings": ReaderForm("-afo -n: -t: -e: --all --bytes: --radix:"),
    "base64": ReaderForm("-d -w: --decode --wrap:", most=1),
    "cksum": _DIGEST,
    "md5sum": _DIGEST,
    "sha1sum": _DIGEST,
    "sha256sum": _DIGEST,
    "sha512sum": _DIGEST,
    "shasum": ReaderForm("-bctq -a: --algorithm: --check"),
    "tree": ReaderForm(
        # For tree, a letter after L is one more option, not the value of L.
        "-adfilxpsugDFqNhCnJ -L! -P! -I! --du --dirsfirst --gitignore --noreport --prune --si"
    ),
    "seq": ReaderForm("-w -f: -s: -# --equal-width --format: --separator:"),
    "uname": ReaderForm("-asnrvmpio --all", most=0),
    "id": ReaderForm("-agGnruz --group --groups --name --user"),
    "whoami": ReaderForm(),
    "groups": ReaderForm(),
    "hostname": _only("", "-f", "-s", "-i", "-I"),
    "nproc": ReaderForm("--all", most=0),
    "arch": _only(""),
    "uptime": _only("", "-p"),
    "free": ReaderForm("-bkmgh -s: --human --total", most=0),
    "printenv": ReaderForm("-0"),
    "env": _only(""),
    "ps": _only("", "aux", "ax", "-ef", "-e", "-A", "-f", "auxf", "auxww"),
    **dict.fromkeys(VERSION_ONLY, _only("--version")),
    "python": _only("--version", "-V"),
    "python3": _only("--version", "-V"),
    "node": _only("--version", "-v"),
}
"""Checks by program name. Each raises Unproven unless the words are known to only read."""

BUILT_IN = split_names(": [ cd command echo false printf pwd test true type")
"""Builtins that bash runs itself, whatever is on PATH."""
