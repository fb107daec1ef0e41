"""Command lines that do more than read, or may, and try to pass for less."""

_DOING_MORE = r"""
touch x
rm -rf src
ls; touch x
ls && touch x
ls || touch x
ls | tee x
ls -l & touch x
ls &
ls > x
ls >x
ls >> x
ls >| x
ls <> x
ls 2> x
ls &> x
ls >& x
cat < /dev/tcp/127.0.0.1/80
cat < *.md
cat < ~/x
cat < $x
cat<README.md
cat 0< README.md
ls <README.md>x
bash < README.md
cat <<< x
ls 1>x
ls 3>x
ls $(touch x)
ls `touch x`
ls ${x:=y}
ls $x
ls $((1))
ls $'a'
ls "$(touch x)"
cat$IFS/etc/passwd
cat${IFS}x
IFS=, ls
PATH=. ls
A=b
LS_COLORS=x ls
a+=1 ls
\ls
l\s
'ls'
"ls"
"ls"''
l''s
./ls
/bin/ls
../ls
bin/ls
(ls)
{ ls; }
! ls
time ls
if ls; then touch x; fi
ls()
for f in *; do touch $f; done
while ls; do touch x; done
[[ -f x ]]
coproc touch x
function f { touch x; }
f() { touch x; }; f
case a in a) touch x;; esac
LC_ALL=./x ls
CI=1 PAGER=./x git log
CI=$(touch x) ls
CI=1
sed -n s/a*'/x/;s/w out/R/p' f
sed s/a*/b/ f
sed -e s/a*/b/ f
sed -n -e a* f
sed wout -e p
sed f -n -e p
awk -F a* '{print $1}' f
awk -F a* a
jq --arg n* v .
jq --slurpfile a b* .
git branch --sort r*
git branch --format f*
git tag --sort r*
git tag --format f*
git log --format x*
git log -n a* x
git ls-files -x a*
sort -t a* f
hostname ''
env ''
sort --output=*
sort --out*
git log --format=*
rg import *.py
file *
ls {a,b}
ls ~
ls ~root
ls a=~
ls !x
echo "a!"
!!
ls ^a^b;touch x
^a^b
ls <(touch x)
diff <(touch x) y
cat /dev/null > /dev/tcp/h/1
echo a >/dev/tcp/h/1
find . -exec touch x ';'
find . -execdir touch x +
find . -ok touch x ';'
find . -delete
find . -fprint x
find . -fprintf x y
find . -fls x
find . -fprint0 x
find . -okdir a
find . -name *
find . -name '*' -delete
find -files0-from x
find . -name a -exec touch x +
git -c core.pager=touch log
git -c alias.x='!touch x' x
git --exec-path=. status
git --git-dir=evil status
git --work-tree=/ status
git -p log
git --paginate log
git --config-env=a=b log
git diff --output=x
git diff --output x
git log --output=x
git show --output=x
git diff --ext-diff
git log --ext-diff -p
git diff --textconv
git diff --outp=x
git grep -O a
git grep -Otouch a
git grep -lOtouch a
git -C
git grep --open-files-in-pager=touch a
git grep --open a
git branch x
git branch -D x
git branch -m a b
git branch -v x
git branch -f main x
git branch --edit-description
git branch -l x
git branch -u origin/x
git tag v1
git tag -d v1
git tag -a v1 -m x
git stash
git stash pop
git stash drop
git remote add a b
git remote update
git config user.name x
git config --add a.b c
git config --unset a.b
git config -e
git config set a.b --list
git config --local core.fsmonitor ./x --get
git config --global alias.x '!touch y' --list
git config --show-origin a.b -- --get
git branch new -- --list
git tag new -- -l
git for-each-ref --sort=-signature:grade
git branch --sort signature
git reflog expire
git reflog delete HEAD
git symbolic-ref a b
git worktree add x
git fetch
git push
git checkout .
git commit -m x
git add .
git log --show-signature
git cat-file --textconv HEAD:a
git cat-file --filters HEAD:a
git archive -o x HEAD
git bisect run touch x
git submodule foreach touch x
git log -p --diff-merges=remerge
git log -p --diff-merges remerge
git show --remerge-diff
git diff --submodule=diff HEAD~1
git log -p --submodule
git log '--format=%h %G?'
git log '--pretty=format:%GS'
git log '--format=%+GG'
git log '--format=% G?'
git for-each-ref '--format=%(signature)'
git branch --list '--format=%(*signature:key)'
git grep --recurse-submodules x HEAD
git ls-files --recurse-submodules
sed 's/a/b/w x' README.md
sed 's/a\/b/w x' README.md
sed 's/a/b\/w x/' README.md
awk 'NR>=1 && NR<=2 {print > "x"}' README.md
git help log
git difftool -x touch
git ls-remote --upload-pack=touch .
git blame --contents x a
git gc
git rebase -x 'touch x' HEAD
git update-index --refresh
git hash-object -w x
git clean -fd
git log *
git diff -- *
git diff -Ox
git rev-parse --parseopt
git notes add
git x
sort -o x README.md
sort README.md -ox
sort --output=x a
sort --outp x a
sort -uo x a
sort --compress-program=./x a
sort -T . a
sort -S1 --compress-program touch a
sort *
uniq a x
uniq a -c
xxd README.md -e
xxd README.md -p
uniq -c a x
uniq -- a x
uniq a*
tree -o x
tree -R -o x
tree -Lo 2 x
tree -ao x
xxd -r a x
xxd -ps a x
xxd -pl a x
xxd -ac a x
xxd -bs a x
xxd -cols 8 a x
xxd a x
date -s now
date --set=now
date --s now
date 01010000
rg --pre=touch a
rg --pre touch a
rg -z a
rg --search-zip a
rg --hostname-bin=./x a
rg --pr touch a
rg a *
rg -e a --pre touch
sed -i s/a/b/ x
sed -n w\ x README.md
sed -n 'w x' a
sed -n '1e touch x' a
sed 's/a/b/w x' a
sed 's/a/touch x/e' a
sed 1W\ x a
sed -ni 1p a
sed --in-place 1p a
sed -f x a
sed -n '1r x' a
sed -e 1p -e 'w x' a
sed
sed -ne 'w x' a
sed -n -ew a
sed --expression='w x' a
sed -s 1p a
sed 'e touch x' a
sed 's/a/b/;w x' a
sed '1{p;w x' a
sed -n '/a/w x' a
sed 's/[/]/w x/' a
awk 'BEGIN{system("touch x")}'
awk '{print > "x"}' a
awk '{print | "sh"}' a
awk -f x a
awk '{print $1}' /inet/tcp/0/h/80
awk -i inplace '{print}' a
awk '{print $1}{system("x")}' a
printf -v x y
printf '%n' x
printf %5n x
printf '%(%s)T' -1
test -v 'a[$(touch x)]'
[ -v 'a[$(touch x)]' ]
test -R x
[ -f * ]
env touch x
env -i ls
env ls
env -S 'ls'
command touch x
command ls
command -p ls
builtin echo
exec ls
eval ls
source x
. x
nice ls
timeout 5 ls
nohup ls
setsid ls
stdbuf -o0 ls
ionice ls
watch ls
xargs touch
ls | xargs touch
ls | xargs rm
ls | sh
echo touch x | bash
cat x | bash -s
echo 'open("x","w")' | python3
echo x | python3 -
echo 'touch x' | bash -v
python3 -v
sh -c ls
bash -c 'touch x'
python3 -c 1
perl -e 1
node -e 1
ruby -e 1
sudo ls
ssh host ls
parallel touch ::: x
busybox touch x
tee x
dd of=x
cp a x
mv a x
tar --to-command=touch -xf a
tar tf a
tar -cf x a
zip x a
curl http://h
wget h
alias ls=touch
unalias -a
set -k
shopt -s expand_aliases
trap x EXIT
export PATH=.
declare x=1
readonly x
hash -p ./x ls
enable -f ./x ls
ulimit -c 1
mapfile -C touch
read x
let x=1
unset x
bind -x a
complete -C x
compgen -C x
fc
cd
cd -
cd a b
cd *
pushd x
popd
kill 1
mkdir x
ln -s a x
chmod +x a
python3 setup.py --version
python3 -m x --version
node x --version
make
make -v x
npm -v
hostname x
hostname -F x
file -C -m x
file -z x
jq -L . x
base64 -o x a
ps e
less a
vim a
man ls
cargo --version
go version
git status; touch x
diff -l a b
du -X
find ; x
find . -printf x -fprintf out x
find . -exec sh -c 'touch x' {} +
git -c core.fsmonitor=./x status
git -c diff.external=./x diff
git -C .. status
git -C /tmp/other status
cd /tmp/other && git status
cd .. && git log
git grep -e a --open-files-in-pager
git diff -o x
git format-patch HEAD
git archive HEAD
git bundle create x HEAD
git hook run pre-commit
git update-ref a b
git read-tree x
git apply x
git shortlog --output=x
git stash show --ext-diff
git diff-files --ext-diff
git remote show origin
git ls-remote
git submodule status
git credential fill
git var GIT_EDITOR
git instaweb
git web--browse x
git --html-path
wc --files0-from=x
sort --files0-from=x
sort --random-source=x a
sort -k1 -o x
shuf -o x a
split a
csplit a 1
date -f x
file -m x a
diff --to-file=x a
fd -x rm
fd --exec rm
jq -L. . a
rg --generate man
sed 's|a|b|w x' a
sed 's,a,b,e' a
sed 's/a/b/1w x' a
sed 's/a/id/me' a
sed 's/a/id/Ie' a
sed '1 e id' a
sed '$e id' a
sed '/a/e' a
sed -nEi s/a/b/ a
sed -i.bak s/a/b/ a
sed --in-place=.bak s/a/b/ a
awk '{print >> "x"}' a
awk '{"id" | getline a; print a}' b
awk 'BEGIN{getline l < "/etc/shadow"; print l}'
awk '@load "x"' a
awk '@include "x"' a
awk -o/tmp/x '{print}' a
awk --dump-variables=x '{print}' a
awk -E x a
gawk '{print}' a
command -p ls
hash
history -w x
umask 000
chrt -i 0 ls
taskset 1 ls
unbuffer ls
script -c ls
flock x ls
unshare ls
nsenter -t 1 ls
doas ls
pkexec ls
toybox ls
strace ls
ltrace ls
gdb -batch a
ldd ./a
rsync -e 'sh -c id' a b:
scp a b
ssh -oProxyCommand=id x
nc -l 1
openssl s_client x
gunzip a
unzip a
vim -c '!id'
ed a
emacs --batch a
npm ls
pip list
docker ps
systemctl status
crontab -l
mktemp
mkfifo x
tput reset
ls | parallel echo
ls | tee /dev/stderr
cat a | tee
dd if=a
(( 1 ))
select x in a; do ls; done
until ls; do ls; done
ls() { id; }; ls
ls {1..3}
ls ~+
sort -- *
cut -f1 *
sed -n 1p *
awk '{print}' *
GIT_EXTERNAL_DIFF=id git diff
GIT_DIR=x git log
LD_PRELOAD=./x ls
BASH_ENV=x ls
PS4='$(id)' ls
PROMPT_COMMAND=id
export BASH_ENV=x
trap id DEBUG
enable -n echo
mapfile -t x
exec 3<>/dev/tcp/x/80
echo x >&3
echo x >/dev/udp/1.1.1.1/53
cd -P x && ls
ls |& cat
CDPATH=/ cd x
""".strip().splitlines()

_DOING_MORE_IN_DISGUISE = [
    "ls -l\ntouch x",
    "cat <<E\nE",
    "ls\\\n-l",
    "ls \\\ntouch",
    "ls\xa0x",
    "ls\u2003x",
    "ls\u200bx",
    "ls\u202ex",
    "ls\rtouch x",
    "ls\x00x",
    "ls\x1b[0m",
    "ls\x0bx",
    "sed 1p\nw a",
    "alias ls='touch x'\nls",
    "ls\u3000-l",
    "ls\u2028id",
    "ls\u0085id",
    "ls\r\nid",
    "ls\x0cid",
    "\u2170s",
    "l\u0131s",
    "ls\ufeff",
    "# x \\\ntouch x",
    "ls # x\ntouch x",
    "CI=1\ntouch x",
]

DOING_MORE = [
    *_DOING_MORE,
    *_DOING_MORE_IN_DISGUISE,
    " && ".join(["ls"] * 60 + ["touch x"]),
    "; ".join(["true"] * 200 + ["touch x"]),
    "ls " + "a " * 5000 + "; touch x",
]
"""Each does, or may do, more than read."""
