"""Rules of a working day, lines that they should allow, and lines that try to ride on them."""

RULES = [
    *[
        "bash(pytest:*)",
        "bash(python -m pytest:*)",
        "bash(ruff:*)",
        "bash(mypy:*)",
        "bash(make lint)",
    ],
    *["bash(git add:*)", "bash(git commit:*)", "bash(git checkout:*)", "bash(npm run test:*)"],
    *["bash(npm test:*)", "bash(npm install)", "bash(cargo test:*)", "bash(cargo build:*)"],
    *["bash(go test:*)", "bash(uv run pytest:*)", "bash(npx tsc:*)", "bash(make:*)", "bash(tar:*)"],
    *["bash(python:*)", "bash(bash scripts/test.sh:*)", "bash(./gradlew test:*)", "bash(mkdir:*)"],
    *["bash(node scripts/build.js:*)", "bash(docker compose ps:*)", "bash(env FOO=1 pytest -q)"],
]

ALLOWED = r"""
pytest
pytest -q
pytest -q tests/test_a.py::test_b
pytest -x -k 'a and not b'
pytest -q 2>&1
pytest -q 2>&1 | tail -20
pytest -q | grep FAILED
pytest tests/*.py
cd src && pytest -q
cd src && pytest -q 2>&1 | tail -5
pytest -q && ruff check . && mypy .
pytest -q; echo done
pytest -q || true
python -m pytest -q
python -m pytest tests -x --tb=short
ruff check .
ruff format src tests
ruff check --fix src/a.py
mypy --strict agentcli
make lint
make test
make -j4 all
make build && make test
git add src/a.py
git add -A
git commit -m 'fix the thing'
git commit -m "fix: a thing (again)"
git commit --amend --no-edit
git add . && git commit -m 'all of it'
git checkout -b feature/x
git status && git add -A
git diff --stat && git commit -am wip
npm test
CI=1 NODE_ENV='test' npm test # once
npm test -- --watch=false
npm run test
npm run test -- --grep x
npm install
cargo test
cargo test --release -- --nocapture
cargo build --release
go test ./...
go test -run TestX ./pkg/x
uv run pytest -q
uv run pytest tests/a.py
npx tsc --noEmit
npx tsc -p tsconfig.json
python manage.py test
python scripts/gen.py --out x
bash scripts/test.sh
bash scripts/test.sh --fast
./gradlew test
./gradlew test --info
node scripts/build.js
node scripts/build.js --watch=false
docker compose ps
docker compose ps -a
mkdir -p build/out
mkdir a b c && ls
tar xzf a.tar.gz
tar -tf a.tar
tar czf out.tgz src
env FOO=1 pytest -q
ls src && cat README.md | head -5 && pytest
git log --oneline -3; git commit -m x
rg TODO src | wc -l && ruff check
pytest -q >/dev/null 2>&1 && echo ok
""".strip().splitlines()

BEYOND = r"""
pytest; touch x
pytest && touch x
pytest | tee x
pytest > x
pytest $(touch x)
pytest `touch x`
pytest "$(touch x)"
pytest -q & touch x
FOO=1 pytest
PYTEST_ADDOPTS=x pytest
env pytest
env FOO=2 pytest -q
env FOO=1 pytest -q; ls
nice pytest
timeout 60 pytest
xargs pytest
sudo pytest
sh -c pytest
bash -c 'pytest'
eval pytest
exec pytest
command pytest
builtin pytest
./pytest
/usr/bin/pytest
bin/pytest
'pytest' -q
p'ytest' -q
\pytest
pytes? -q
pytest{,}
(pytest)
! pytest
time pytest
git -c core.pager=x add .
git -C /tmp add .
git --git-dir=x add .
git push
git rebase -x 'touch x' HEAD
npm run build
npm run testing
npm install evil
npm exec evil
npm test --script-shell=./evil
npx evil
npx -p evil tsc
npx --yes tsc
uv run touch x
uv run --with evil pytest
uv run -- pytest
go test -exec ./evil ./...
go test -toolexec=./evil ./...
go test -vettool=x ./...
make lint extra; touch x
make --eval='$(shell touch x)'
python -c 'import os'
python -m timeit x
python
python -
echo 'import os' | python
echo 'touch x' | python /dev/stdin
python /proc/self/fd/0
python -i x.py
python -Wd -c x
bash scripts/other.sh
bash -x scripts/test.sh
bash
echo 'touch x' | bash
./gradlew build
cd src && ./gradlew test
cd / && pytest
cd .. && pytest
cd /tmp && make
cd - && pytest
cd && pytest
cd *; pytest
tar --to-command=sh -xf a
tar --to-comm=sh -xf a
tar --use-compress-program=./x -xf a
tar -I ./x -xf a
tar xf a --checkpoint-action=exec=sh
tar -xf a --checkpoint=1 --checkpoint-action=exec=sh
tar --rsh-command=x -xf h:a
docker compose run x
docker compose exec x sh
docker run x
mkdir a; rm -rf b
node -e 1
node scripts/other.js
git commit -m "$(cat x)"
git commit -m 'x' && git push
alias pytest=touch; pytest
export PATH=.; pytest
hash -p ./x pytest; pytest
set -k; pytest
trap 'touch x' EXIT; pytest
source x; pytest
. x
pytest() { touch x; }; pytest
for i in 1 2; do pytest; done
if pytest; then touch x; fi
while pytest; do touch x; done
cargo test --config build.rustc-wrapper="./x"
cargo +evil test
mypy --python-executable ./x src
./gradlew test --init-script x
./gradlew test -I x
tar cfI x ./evil src
tar -F ./evil -xf a
tar --info-script=./evil -cf a src
tar --rmt-command=./evil -cf h:a src
tar xf h:a
tar -xf a -T names
tar --files-from=names -cf a
echo 'all:;touch x' | make -f -
make -f /dev/stdin
make --file=-
make --makefile=/dev/stdin
git commit --template=x -m a
uv run --python ./x pytest
npm test --node-options=--require=./x
go test -ldflags=x -toolexec ./x ./...
pytest;touch x
pytest	touch;touch x
pytest|sh
cd sub && make; cd .. && cd .. && make
""".strip().splitlines()

WHOLE_PROGRAMS = [f"bash({name}:*)" for name in ("git", "gcc", "clang++-17", "docker", "uv")]

WITH_WHOLE_PROGRAMS = r"""
git submodule update --init
git submodule --quiet status
git merge main
git merge -s ours main
git merge -Xours main
git merge --no-ff -m fixes main
git merge --strategy=ort -X theirs main
git cherry-pick -s abc
git revert --signoff abc
git pull --rebase
git rebase main
gcc -c x.c -o x.o
gcc -Wall -DB=1 -Ibuild -O2 x.c -lm
gcc -fuse-ld=gold x.c
clang++-17 -std=c++20 -Wl,-rpath,/x x.cc
docker --context here ps
docker build -t run .
uv pip install pytest
""".strip().splitlines()

BEYOND_WHOLE_PROGRAMS = r"""
git remote-ext origin 'touch x'
git remote-fd origin 7
git merge-index ./evil -a
git instaweb -d ./evil
git submodule --quiet foreach 'touch x'
git submodule -q --cached foreach 'touch x'
git submodule--helper foreach 'touch x'
git bisect --no-checkout run ./evil
git for-each-repo --config=a.b -c alias.x=!touch x
git merge -s evil main
git merge -sevil main
git merge -qs evil main
git merge --strategy=evil main
git merge --strategy evil main
git pull -s evil
git cherry-pick --strategy=evil abc
git send-email --to-cmd=./evil x
git clone --templ=evil a b
git rebase --exec=./evil main
git rebase --exe=./evil main
git rebase --ex ./evil main
git rebase -x ./evil main
git fetch --upl=./evil origin
git ls-remote --up=./evil .
git-rebase --exec=./evil main
git-submodule foreach 'touch x'
gcc -B. -c x.c
gcc -B . -c x.c
gcc -wrapper ./evil x.c
gcc -specs=x x.c
gcc -fplugin=./x.so x.c
gcc @words
gcc -Wl,-plugin,./x.so x.c
clang++-17 -B. x.cc
clang++-17 --ld-path=./evil x.cc
clang++-17 -fuse-ld=./evil x.cc
docker --debug run x
docker --context here exec x sh
uv --quiet run ./evil
""".strip().splitlines()
