"""Disks that fail: the n-th call that changes a run's files, for all n, as full or as broken."""

import errno
import os
import random
import re
import shutil
import subprocess
import tempfile

from child import HERE, Clock, finish, start


def torture(seconds, seed, goal=None):
    clock, count, found = Clock(seconds), 0, []
    folder = tempfile.mkdtemp()
    try:
        shim = os.path.join(folder, "shim.so")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", shim, os.path.join(HERE, "shim.c"), "-ldl"],
            check=True,
        )
        number = 1  # the configuration: eager, Adam, a checkpoint every 7 steps

        def run(out, at, kind=0):
            shimmed = {
                "LD_PRELOAD": shim,
                "TORTURE_AT": str(at),
                "TORTURE_ERROR": str(kind),
                "TORTURE_BELOW": out,
            }
            return finish(start(["kills.py", out, number], **shimmed), 60)

        status, out, err = run(folder + "/whole", 0)
        if status != 0:
            return "no run", [err[-500:]]
        end, calls = out.split()[-1], int(re.findall(r"torture: (\d+) calls", err)[0])
        places = [(at, kind) for at in range(1, calls + 1) for kind in (errno.ENOSPC, errno.EIO)]
        random.Random(seed).shuffle(places)
        for at, kind in places:
            if not clock:
                break
            name, where = f"{errno.errorcode[kind]} at call {at} of {calls}", f"{folder}/run{count}"
            status, out, err = run(where, at, kind)
            if status not in (0, 1) or (status == 1 and "mica.IoError" not in err):
                found.append(f"{name}: {status}: {err[-500:]}")
            status, out, err = run(where, 0)
            if status != 0 or out.split()[-1] != end:
                found.append(f"{name}, gone on with: {status}: {out} {err[-500:]}")
            shutil.rmtree(where, ignore_errors=True)
            count += 1
        return f"{count} of {len(places)} failed writes", found
    finally:
        shutil.rmtree(folder)
