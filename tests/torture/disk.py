"""Disks that fail: the n-th call that changes a run's files, for all n, as full or as broken."""

import errno
import os
import random
import re
import shutil
import subprocess
import tempfile

from child import HERE, finish, start

NUMBER = 1  # the configuration: eager, Adam, a checkpoint every 7 steps


def shim_in(folder):
    """The library that fails calls: one that was built before, or by the compiler that is here."""
    built = os.path.join(HERE, "shim.so")
    if os.path.exists(built):
        return built
    shim = os.path.join(folder, "shim.so")
    source = os.path.join(HERE, "shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


def torture(group):
    folder = tempfile.mkdtemp()
    try:
        shim = shim_in(folder)

        def run(out, at, kind=0):
            shimmed = {
                "LD_PRELOAD": shim,
                "TORTURE_AT": str(at),
                "TORTURE_ERROR": str(kind),
                "TORTURE_BELOW": out,
            }
            return finish(start(["kills.py", out, NUMBER], **shimmed), 60)

        status, out, err = run(folder + "/whole", 0)
        if status != 0:
            group.find(f"no run: {err[-500:]}")
            return
        end, calls = out.split()[-1], int(re.findall(r"torture: (\d+) calls", err)[0])
        places = [(at, kind) for at in range(1, calls + 1) for kind in (errno.ENOSPC, errno.EIO)]
        random.Random(group.seed).shuffle(places)

        def fail(place):
            if group.left() <= 0:
                return
            at, kind = place
            name, where = f"{errno.errorcode[kind]} at call {at}", f"{folder}/{at}-{kind}"
            status, out, err = run(where, at, kind)
            if status not in (0, 1) or (status == 1 and "mica.IoError" not in err):
                group.find(f"{name} of {calls}: {status}: {err[-500:]}")
            status, out, err = run(where, 0)
            if status != 0 or out.split()[-1] != end:
                group.find(f"{name} of {calls}, gone on with: {status}: {out} {err[-500:]}")
            shutil.rmtree(where, ignore_errors=True)
            group.add("failed writes")

        group.goal = len(places)
        group.at_once(fail, places)
    finally:
        shutil.rmtree(folder)
