import pytest

from agentcli.system.command_outcome import describe_failure, name_check, only_looks
from agentcli.types.tools import Command

PRINTED = [
    ("pytest -q; echo done", "E   ImportError\n1 error in 0.42s\ndone", "1 error in 0.42s"),
    (
        "pytest || true",
        "= 1 failed, 30 passed, 2 warnings in 3.20s (0:00:03) =",
        "= 1 failed, 30 passed, 2 warnings in 3.20s (0:00:03) =",
    ),
    ("python -m pytest x; true", "no tests ran in 0.01s", "no tests ran in 0.01s"),
    (
        "python -m unittest; true",
        "Ran 3 tests in 0.001s\n\nFAILED (errors=1)",
        "FAILED (errors=1)",
    ),
    ("npm test; true", "Tests:       1 failed, 4 passed, 5 total", "Tests:       1 failed, 4"),
    ("npm run test || :", "npm error Lifecycle script `test` failed", "npm error Lifecycle"),
    ("npx vitest run; true", " Tests  2 failed | 8 passed (10)", "Tests  2 failed | 8"),
    ("npx mocha; true", "  3 passing\n  1 failing\n", "1 failing"),
    ("npm test; true", "ℹ pass 3\nℹ fail 1\nℹ cancelled 0", "ℹ fail 1"),
    (
        "cargo test 2>&1 | tail -5; echo",
        "test result: FAILED. 3 passed; 1 failed; 0 ignored",
        "test result: FAILED.",
    ),
    ("cargo build; true", "error: could not compile `x` (lib)", "error: could not compile"),
    ("go test ./...; true", "--- FAIL: TestX (0.00s)\nFAIL\texample.com/x\t0.003s", "FAIL"),
    ("go vet ./...; true", "FAIL example.com/x [build failed]", "FAIL example.com/x [build"),
    ("make test; true", "make: *** [Makefile:3: test] Error 1", "make: *** [Makefile:3"),
]
FINE = [
    ("pytest -q", "30 passed in 3.20s"),
    ("pytest -q", "12 passed, 1 xfailed in 0.10s"),
    ("cat pytest.log", "1 failed in 3.20s"),
    ("cargo test", "test result: ok. 4 passed; 0 failed; 0 ignored"),
    ("go test ./...", "ok  \texample.com/x\t0.003s"),
    ("npm test", "Tests:       5 passed, 5 total"),
    ("npm test", "ℹ fail 0"),
]


@pytest.mark.parametrize(("command", "output", "quoted"), PRINTED)
def test_failure_that_only_the_output_shows_is_quoted(
    command: str, output: str, quoted: str
) -> None:
    ran = Command(command=command, cwd="/", exit_code=0, tail=output)
    assert describe_failure(ran).startswith(f'exit code 0, but it printed "{quoted}')


@pytest.mark.parametrize(("command", "output"), FINE)
def test_success_is_no_failure(command: str, output: str) -> None:
    assert describe_failure(Command(command=command, cwd="/", exit_code=0, head=output)) == ""


@pytest.mark.parametrize(
    ("ran", "failure"),
    [
        (Command(command="pytest", cwd="/", exit_code=2), "exit code 2"),
        (Command(command="pytest", cwd="/", timed_out=True), "timed out"),
        (Command(command="pytest", cwd="/", signal="SIGSEGV"), "ended by SIGSEGV"),
        (
            Command(command="pytest | tail", cwd="/", exit_code=0, pipe="pytest 2, tail 0"),
            "exit code 0; in the pipe: pytest 2, tail 0",
        ),
        (Command(command="ls | grep x", cwd="/", exit_code=1), ""),
        (Command(command="grep x nosuch", cwd="/", exit_code=2), "exit code 2"),
    ],
)
def test_every_way_to_fail_is_described(ran: Command, failure: str) -> None:
    assert describe_failure(ran) == failure


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd x && CI=1 timeout 60 .venv/bin/python -X dev -m pytest -q tests | tail -5", "pytest"),
        ("uv run pytest", "pytest"),
        ("npm --silent run test:unit -- --watch=false", "npm run test:unit"),
        ("npm install", ""),
        ("cargo +nightly test", "cargo test"),
        ("cargo clippy && cargo test", "cargo test"),
        ("go test ./... ; git status", "go test"),
        ("ruff check . && mypy src", "mypy"),
        ("echo pytest", ""),
        ("# pytest\nls", ""),
        ("sh test_durations.sh", "sh test_durations.sh"),
        ("cd a && python3 -B tests/test_app.py -v", "python3 tests/test_app.py"),
        ("node src/app.test.js", "node src/app.test.js"),
        ("CI=1 ./run_tests.sh --all", "./run_tests.sh"),
        ("test -f a.py", ""),
        ("python latest.py", ""),
        ("sh -c 'test -f a.py'", ""),
        ("python -m pytest --version", ""),
        ("pytest --collect-only -q && true", ""),
        ("pytest -n 2 -k help", "pytest"),
        ("make clean", ""),
        ("make -j2", "make"),
        ("ruff format .", ""),
        ("ruff format --check .", "ruff"),
        ("pre-commit install", ""),
    ],
)
def test_a_check_is_known_by_its_program(command: str, name: str) -> None:
    assert name_check(command) == name


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git diff | head; ls", True),
        ("cd a && cat b", True),
        ("./run-tests", False),
        ("python x.py | tail", False),
    ],
)
def test_commands_that_only_look_are_known(command: str, expected: bool) -> None:
    assert only_looks(command) is expected
