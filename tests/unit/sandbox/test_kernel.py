import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import sys
from pathlib import Path
from agentcli.sandbox import kernel

top = Path(sys.argv[1])
view = kernel.make_read_only_view([top / "workspace", top / "fixed"])
assert view is not None
kernel.enter_view(view)
for name in ("workspace", "workspace/fixed", "fixed", "beside"):
    try:
        (top / name / "new").touch()
        print(name, "written")
    except OSError as error:
        print(name, error.strerror)
"""
MOUNT = """
for name in workspace/fixed fixed; do
    mount --bind "$1/$name" "$1/$name" && mount -o remount,bind,ro "$1/$name" || exit
done
exec "$2" -c "$3" "$1"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_view_leaves_read_only_what_was_mounted_so(tmp_path: Path) -> None:
    for name in ("workspace/fixed", "fixed", "beside"):
        (tmp_path / name).mkdir(parents=True)
    words = ["sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable, LOOK]
    ran = subprocess.run(["unshare", "-m", *words], capture_output=True, text=True)
    if "must be superuser" in ran.stderr or "Operation not permitted" in ran.stderr:
        pytest.skip("this root cannot mount")
    assert ran.stdout.splitlines() == [
        "workspace written",
        "workspace/fixed Read-only file system",
        "fixed Read-only file system",
        "beside Read-only file system",
    ], ran.stderr
