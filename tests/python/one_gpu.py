"""Starts the ranks of a program on one GPU: each says that it is on a host of its own, so that
NCCL, which otherwise wants a GPU for each, goes by sockets.

    python one_gpu.py RANKS WORDS...        prints what they print, each line with its rank
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ranks:
    """Processes with torchrun's variables; lines of both outputs by rank, statuses, and when each
    ended, in seconds from the start."""

    def __init__(self, ranks, words, timeout, **variables):
        port = str(free_port())
        self.lines = [[] for _ in range(ranks)]
        self.begin = time.monotonic()
        self.processes, readers = [], []
        for rank in range(ranks):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "NCCL_HOSTID": f"host-{rank}",
                "NCCL_SOCKET_IFNAME": "lo",
                "NCCL_IB_DISABLE": "1",
                **variables,
            }
            process = subprocess.Popen(
                [str(word) for word in words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                start_new_session=True,
            )
            self.processes.append(process)
            readers.append(threading.Thread(target=self._read, args=(rank, process)))
            readers[-1].start()
        self.ended = [None] * ranks
        while None in self.ended and time.monotonic() - self.begin < timeout:
            for rank, process in enumerate(self.processes):
                if self.ended[rank] is None and process.poll() is not None:
                    self.ended[rank] = time.monotonic() - self.begin
            time.sleep(0.02)
        self.statuses = [process.poll() for process in self.processes]  # None: it was still there
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for reader in readers:
            reader.join(5)

    def _read(self, rank, process):
        for line in process.stdout:
            self.lines[rank].append(line.rstrip("\n"))

    def text(self):
        return "\n".join(f"[{r}] {line}" for r, lines in enumerate(self.lines) for line in lines)


if __name__ == "__main__":
    done = Ranks(int(sys.argv[1]), sys.argv[2:], float(os.environ.get("RANKS_TIMEOUT", "60")))
    print(done.text())
    ended = [None if t is None else round(t, 1) for t in done.ended]
    print(f"statuses {done.statuses}, ended after {ended} s")
    sys.exit(any(status != 0 for status in done.statuses))
