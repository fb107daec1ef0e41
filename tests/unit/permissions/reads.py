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
