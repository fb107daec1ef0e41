"""Command lines that only read, as people and models write them every day."""

READING = r"""
ls
ls -la
ls -la src tests
ls *.py
ls src/*.py
cat README.md
cat src/a.py src/b.py
cat *.md
head -20 src/a.py
head -n 5 README.md
tail -n +10 src/a.py
tail -5 README.md
wc -l src/a.py
wc -l *.md
grep -rn "def " src
grep -n 'TODO\|FIXME' src/a.py
grep -rn --include='*.py' import .
grep -c x README.md 2>/dev/null
egrep 'a|b' README.md
rg -n "def main" src
rg --files -g '*.py'
rg -tpy -i import src | head -5
find . -name '*.py' -type f
find src -maxdepth 2 -not -name '*.pyc'
find . -name '*.py' -newer README.md -size +1k -print
find . '(' -name '*.py' -o -name '*.md' ')' -type f
git status
git status --short
git status -sb
git log --oneline -5
git log --oneline -n 5 -- src/a.py
git log -p -1
git log --since='2 weeks ago' --author=me --format='%h %s'
git diff
git diff HEAD~1
git diff --cached --stat
git diff HEAD~1 -- src/a.py
git show HEAD
git show HEAD:README.md
git show --stat HEAD~1
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list 'feat*'
git tag
git tag -l 'v*'
git remote -v
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git rev-parse --show-toplevel
git ls-files
git ls-files '*.py'
git ls-files -o --exclude-standard
git blame -L 1,2 README.md
git grep -n import
git stash list
git config --get user.name
wc -l < README.md
tr a-z A-Z <README.md | sort
git --no-pager log -3
git -C src log --oneline
git describe --always
pwd
echo hello world
echo "done: 3 files"
printf '%s\n' a b c
date
date +%Y-%m-%d
date -u -d yesterday
sleep 0.01
stat README.md
stat -c '%s %n' README.md
file README.md
du -sh src
du -sh *
stat *
sha256sum *
rg "import\(" src
grep -rn "a\.b" src
grep -rn --include=*.py import src
rg --glob=*.py import
grep -r --include *.py import .
ls -I *.pyc
sed -n 1,5p src/*.py
sed -n -e 1p -e 3p src/*.py
awk '{print $1}' src/*.py
jq . src/*.json
sort src/*.txt
git log -- src/*.py
git branch --list feat*
ls # list
CI=1 NO_COLOR=1 ls
df -h .
sort README.md
sort -t, -k2,2n -u README.md
sort README.md | uniq -c | sort -rn | head -10
cut -d: -f1 README.md
cat README.md | tr a-z A-Z
basename src/a.py .py
dirname src/a.py
realpath src
readlink -f src
which python3
command -v git
type ls
true
false || true
test -f README.md && echo yes
[ -d src ] && ls src
diff README.md src/a.py
diff -ru src tests
cmp README.md README.md
nl README.md
tac README.md
rev README.md
cat README.md | column -t
jq . data.json
jq -r '.a.b' data.json
cat data.json | jq '.a | keys'
jq --arg k a '.[$k]' data.json
sha256sum README.md
md5sum README.md | cut -d' ' -f1
seq 1 5
uname -a
id
whoami
python3 --version
node --version
cd src && ls
cd src && git log --oneline -3
cd src; cat a.py | wc -l
sed -n '1,20p' README.md
sed -n 1,3p README.md
sed -n '/import/p' src/a.py
sed 's/a/b/g' README.md
awk '{print $1}' README.md
awk -F: 'NR>1 {print $1, $NF}' README.md
ls -la 2>&1
ls nothere 2>/dev/null || echo missing
ls >/dev/null 2>&1 && echo ok
tree -L 2
xxd README.md | head -3
env
printenv HOME
ls; pwd; git status
""".strip().splitlines()
"""Each only reads."""


EVERYDAY = r"""
rg "foo\(" src
rg -n "class \w+\(Base\)" --type py
rg -l TODO | sort | uniq -c
rg -n --hidden -g '!node_modules' "api_key"
rg -C3 "def main" src/ tests/
rg -o "import \w+" -h | sort | uniq -c | sort -rn | head -20
rg --files | wc -l
rg "a|b" -g "*.ts" -g "*.tsx"
rg -uu needle .
rg --json foo src | head -3
rg -e foo -e bar --count-matches
rg --multiline "a\nb" src
grep "a\.b" src/x.py
grep -rn "foo" --include=*.py .
grep -rn "foo" --include="*.py" --exclude-dir=.git .
grep -rnE "^(def|class) " src
grep -rl "import os" src tests | head
grep -n "x" src/a.py | tail -n 5
grep -v '^#' setup.cfg
grep -A5 -B2 "error" log.txt
grep -q foo README.md && echo yes
grep -c '' README.md
du -sh .git
du -h --max-depth=1 . | sort -h
ls -la # what is here
ls -1 src | head
ls -lt | head -5
ls -R src | head -50
ls -d */
ls -la .github/workflows/ 2>/dev/null
ls src tests docs
cat pyproject.toml | head -50
cat -n src/a.py | sed -n '10,20p'
cat src/a.py | grep -n import
sed -n '1,80p' src/a.py
sed -n 120,180p src/a.py
sed -n '/def main/,/return/p' src/a.py
head -c 200 data.bin | xxd
head -50 src/a.py; tail -50 src/a.py
wc -l src/*.py | sort -n
find . -name "*.py" -not -path "./.venv/*" | head -100
find . -type f | sed 's/.*\.//' | sort | uniq -c
find src -name "*.ts" -o -name "*.tsx" | wc -l
find . -maxdepth 1 -type d
find . -name node_modules -prune -o -name '*.js' -print
find . -mtime -1 -type f
find . -path ./node_modules -prune -o -type f -print | head
find . -iname '*readme*'
find . -size +1M -ls
git status -sb && git diff --stat
git diff --cached --name-only
git diff main...HEAD --stat
git log --oneline -10
git log --oneline --graph --all | head -20
git log -p -1 -- src/a.py
git log --since="2 weeks ago" --pretty=format:"%h %an %s"
git log -S"needle" --oneline
git log -L 10,20:src/a.py
git show HEAD:src/a.py
git show --stat HEAD
git show abc123 -- src
git blame -L 1,20 src/a.py
git tag -l | tail -5
git ls-files | head
git ls-files '*.py' | wc -l
git grep -n "foo" -- '*.py'
git config --list
git describe --tags --always
git shortlog -sn | head
git merge-base main HEAD
git cat-file -p HEAD
git -C src status
pwd && ls
which node npm pnpm
type python3
command -v pytest
node -v
echo "done"
echo "---" && cat README.md
printf '%s\n' hello
env | grep PYTHON
file src/a.py
stat src/a.py
diff a.txt b.txt
diff -u a.txt b.txt | head -40
cmp a b
sort names.txt | uniq -d
cut -d, -f1 data.csv | sort -u
awk '{print $1}' data.txt
awk -F: '{print $1}' /etc/passwd
awk 'NR>=10 && NR<=20' src/a.py
jq '.scripts' package.json
jq -r '.dependencies | keys[]' package.json
cat package.json | jq .name
xxd -l 64 data.bin
xxd -c8 -g 1 data.bin
hexdump -C data.bin | head
od -c data.bin | head
strings data.bin | head
md5sum README.md
basename /a/b.txt
dirname /a/b.txt
test -f README.md && echo exists
[ -f README.md ] && echo exists
cd src && grep -n foo a.py
ps aux | head
nproc
free -h
hostname
sleep 1
nl -ba src/a.py | sed -n '5,10p'
column -t data.txt
comm -12 a b
paste a b
fold -w 80 README.md
rev a.txt
tac a.txt
uptime
""".strip().splitlines()
"""More of the same, as models write it. They are judged, not run."""
