"""The programs that are known to read, each with the words with which it still only reads.

Reading may reach outside the workspace: the sandbox decides what can be read at all.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise

from agentcli.permissions import git_reads
from agentcli.permissions.reader_options import (
    ReaderOptions,
    Unproven,
    refuse_globs,
    refuse_unsafe_globs,
    split_names,
)
from agentcli.permissions.shell import ShellWord
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

# Readers whose words are a small language of their own: find, sed, awk, jq, test, printf, date.


_FIND_ALONE = split_names(
    """-a -and -o -or -not ! ( ) , -depth -d -daystart -empty -executable -false -follow -ls
    -mount -nogroup -noleaf -nouser -print -print0 -prune -quit -readable -true -warn -nowarn
    -writable -xdev"""
)
_FIND_VALUED = split_names(
    """-amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum -ipath
    -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -newerat
    -newerct -newermt -path -perm -printf -regex -regextype -samefile -size -type -uid -used
    -user -wholename -xtype"""
)


def find(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    rest = list(words)
    while rest and (rest[0].text in ("-L", "-H", "-P") or rest[0].text[:1] not in ("-", "(", "!")):
        rest.pop(0)
    refuse_globs(rest)
    while rest:
        word = rest.pop(0).text
        if word in _FIND_VALUED and rest:
            rest.pop(0)
        elif word not in _FIND_ALONE:
            raise Unproven(f"find {word}")


# No bracket or delimiter in a pattern, and no backslash but before what it cannot turn into the
# end of the pattern: that end must not depend on the dialect.
_SED_TEXT = r"(?:[A-Za-z0-9 _.,:=+*^$@%\"'<>-]|\\[.*^$+?()|\d])"
_SED_ADDRESS = rf"(?:\d+|\$|/{_SED_TEXT}+/)"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?"
_SED_COMMAND = rf"{_SED_RANGE} ?(?:[pdq=]|s/{_SED_TEXT}+/{_SED_TEXT}*/[gpI\d]*)"
_SED_SCRIPT = compile_later(rf"{_SED_COMMAND}(?:; ?{_SED_COMMAND})*")
_SED_OPTIONS = ReaderOptions.parse("-nEr -e: --quiet --silent --regexp-extended --expression:")


def check_sed(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    operands = _SED_OPTIONS.list_operands(words)
    given = _collect_values(words, ("-e", "--expression"))
    if given and any(word.text.startswith("-") for word in _skip_to(operands, words)):
        # Where options end at the first operand, that is the script.
        raise Unproven("an option after a file")
    scripts = given or operands[:1]
    refuse_globs(scripts)  # bash may put the name of a file there, which is another script
    if not scripts or not all(_SED_SCRIPT.fullmatch(script.text) for script in scripts):
        raise Unproven("a script that may do more than print")


def _collect_values(words: Sequence[ShellWord], options: Sequence[str]) -> list[ShellWord]:
    """Return the values given in a separate word. Raise Unproven for other spellings."""
    values: list[ShellWord] = []
    for word, following in pairwise([*words, ShellWord("")]):
        if word.text in options:
            values.append(following)
        elif word.text.startswith(tuple(options)) or re.match(r"-[nEr]+e", word.text):
            raise Unproven(f"option {word.text}")
    return values


_AWK_FIELD = r"\$(?:\d+|NF)"
_AWK_LINE = r"NR ?(?:[<>=!]=|[<>]) ?\d+"
_AWK_LINES = rf"{_AWK_LINE}(?: ?&& ?{_AWK_LINE})?"
_AWK_PRINT = rf"\{{ ?print(?: ?{_AWK_FIELD}(?:, ?{_AWK_FIELD})*)?;? ?\}}"
_AWK_SCRIPT = compile_later(rf"{_AWK_LINES}|(?:{_AWK_LINES} ?)?{_AWK_PRINT}")


def check_awk(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    operands = ReaderOptions.parse("-F:").list_operands(words)
    refuse_globs(operands[:1])
    if not operands or not _AWK_SCRIPT.fullmatch(operands[0].text):
        raise Unproven("a program that may do more than print fields")
    if any(name.text.startswith("/inet") for name in operands[1:]):
        raise Unproven("/inet (opens a network connection)")


_JQ_TWO_VALUES = frozenset(["--arg", "--argjson", "--slurpfile", "--rawfile"])
_JQ_OPTIONS = ReaderOptions.parse(
    """-acCehjMnrRsS -f: --ascii-output --compact-output --color-output --exit-status --from-file:
    --indent: --join-output --monochrome-output --null-input --raw-input --raw-output --slurp
    --sort-keys --stream --tab --args --jsonargs"""
)


def check_jq(words: Sequence[ShellWord]) -> None:
    """Check only the options: a jq filter cannot write or start anything."""
    refuse_unsafe_globs(words)
    rest, kept = list(words), list[ShellWord]()
    while rest:
        word = rest.pop(0)
        if word.text in _JQ_TWO_VALUES:
            refuse_globs(rest[:2])
            del rest[:2]
        else:
            kept.append(word)
    _JQ_OPTIONS.list_operands(kept)


_TEST_OPERATORS = split_names(
    """-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S -ef -nt -ot
    -eq -ne -lt -le -gt -ge -a -o"""
)


def check_condition(words: Sequence[ShellWord]) -> None:
    """Refuse -v and -R: they evaluate a subscript, and with it any command inside."""
    refuse_globs(words)
    for word in words:
        is_operator = word.text in _TEST_OPERATORS or re.fullmatch(r"-\d*", word.text)
        if word.text.startswith("-") and not is_operator:
            raise Unproven(f"test {word.text}")


_PRINTF_FORMAT = compile_later(r"(?:[^%]|%%|%[-+ #0]*\d*(?:\.\d+)?[sdiouxXeEfgGcbq])*", re.DOTALL)


def check_printf(words: Sequence[ShellWord]) -> None:
    """Refuse -v and %n: they assign a variable."""
    if not words or words[0].is_glob or words[0].text.startswith("-"):
        raise Unproven("printf without a plain format")
    if not _PRINTF_FORMAT.fullmatch(words[0].text):
        raise Unproven(f"printf format {words[0].text}")


_DATE_OPTIONS = ReaderOptions.parse(
    "-uR -d: -r: -I? --utc --universal --date: --reference: --iso-8601? --rfc-3339: --rfc-email"
)


def check_date(words: Sequence[ShellWord]) -> None:
    refuse_globs(words)
    for operand in _DATE_OPTIONS.list_operands(words):
        if not operand.text.startswith("+"):
            raise Unproven(f"date {operand.text} (sets the clock)")


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
        refuse_unsafe_globs(words, may_become_options=self.harmless, in_values=True)
        operands = _parse_options(self.options).list_operands(words, takes_globs=self.harmless)
        if self.most is not None:
            # Not every version of a program looks for options after the first operand.
            rest = _skip_to(operands, words)
            if len(rest) > self.most:
                raise Unproven(f"operand {rest[self.most].text}")


def _skip_to(operands: Sequence[ShellWord], words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return the words from the first operand on."""
    return words[list(words).index(operands[0]) :] if operands else ()


@cache
def _parse_options(notation: str) -> ReaderOptions:
    return ReaderOptions.parse(notation)


_XXD_FORM = ReaderForm("-abeipu -c: -g: -l: -s:", most=1)
_XXD_OPTION = compile_later(r"-[abeipu]|-[cgls]\d*")


def check_xxd(words: Sequence[ShellWord]) -> None:
    """`-ps` is the name of one option here, without a value; xxd writes to its second operand."""
    for word in words:
        if word.text.startswith("-") and not _XXD_OPTION.fullmatch(word.text):
            raise Unproven(f"option {word.text}")
    _XXD_FORM(words)


def _accept_any_words(words: Sequence[ShellWord]) -> None:
    """Accept all words: the program only prints or ignores them."""


def _check_numbers(words: Sequence[ShellWord]) -> None:
    for word in words:
        if not word.text.removesuffix("s").replace(".", "", 1).isdecimal():
            raise Unproven(f"operand {word.text}")


def _build_form_check(*forms: str) -> Callable[[Sequence[ShellWord]], None]:
    """Return a check that accepts exactly one of these forms and nothing else."""

    def check(words: Sequence[ShellWord]) -> None:
        if [word.text for word in words] not in [form.split() for form in forms]:
            raise Unproven(f"arguments other than {' or '.join(forms) or 'none'}")

    return check


def _check_command(words: Sequence[ShellWord]) -> None:
    """Accept `command -v NAME`, which shows where a program is. `command NAME` runs it."""
    if not words or words[0].text not in ("-v", "-V"):
        raise Unproven("command without -v")
    refuse_globs(words)
    _parse_options("").list_operands(words[1:])


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
    "-bctwz --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn",
    harmless=True,
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
    "find": find,
    "git": git_reads.check_git,
    "sed": check_sed,
    "awk": check_awk,
    "jq": check_jq,
    "test": check_condition,
    "[": check_condition,
    "printf": check_printf,
    "date": check_date,
    "echo": _accept_any_words,
    "true": _accept_any_words,
    "false": _accept_any_words,
    ":": _accept_any_words,
    "pwd": ReaderForm("-LP", most=0),
    "sleep": _check_numbers,
    "stat": ReaderForm(
        "-Lft -c: --dereference --file-system --format: --printf: --terse --version",
        harmless=True,
    ),
    "file": ReaderForm(
        """-bhiklLNnrs0 -F: --brief --dereference --no-dereference --mime --mime-type
        --mime-encoding --keep-going --separator: --extension --raw --print0 --version"""
    ),
    "du": ReaderForm(
        """-0abchHDkLlmPSsx -B: -d: -t: -X: --all --apparent-size --block-size: --bytes --total
        --max-depth: --human-readable --inodes --si --summarize --threshold: --time? --exclude:
        --one-file-system --version""",
        harmless=True,
    ),
    "df": ReaderForm(
        """-ahHiklPTv -B: -t: -x: --all --block-size: --human-readable --si --inodes --local
        --output? --portability --total --type: --print-type --exclude-type: --version""",
        harmless=True,
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
    "command": _check_command,
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
    "xxd": check_xxd,
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
    "hostname": _build_form_check("", "-f", "-s", "-i", "-I"),
    "nproc": ReaderForm("--all", most=0),
    "arch": _build_form_check(""),
    "uptime": _build_form_check("", "-p"),
    "free": ReaderForm("-bkmgh -s: --human --total", most=0),
    "printenv": ReaderForm("-0"),
    "env": _build_form_check(""),
    "ps": _build_form_check("", "aux", "ax", "-ef", "-e", "-A", "-f", "auxf", "auxww"),
    **dict.fromkeys(VERSION_ONLY, _build_form_check("--version")),
    "python": _build_form_check("--version", "-V"),
    "python3": _build_form_check("--version", "-V"),
    "node": _build_form_check("--version", "-v"),
}
"""Checks by program name. Each raises Unproven unless the words are known to only read."""

BUILT_IN = split_names(": [ cd command echo false printf pwd test true type")
"""Builtins that bash runs itself, whatever is on PATH."""
