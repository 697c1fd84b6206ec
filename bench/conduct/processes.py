"""Processes of one measurement: they end with it, whatever happens."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path


class Failed(Exception):
    """What failed, and what it said."""


def output(*argv, timeout=600):
    """What a command prints; it must succeed."""
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    if ended.returncode != 0:
        raise Failed(f"`{' '.join(map(str, argv))}` ended with {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


class Processes:
    """Started processes, with a directory for what they say and leave."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="switchml-bench-")
        self.running = []
        return self

    def __exit__(self, *_):
        for kind, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            left = [process for process in self.running if process.poll() is None]
            for process in left:
                os.killpg(process.pid, kind)  # each has a group of its own
            deadline = time.monotonic() + patience
            for process in left:
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
        self.directory.cleanup()

    def store(self):
        """A directory in which ranks find each other."""
        path = Path(self.directory.name, "store")
        path.mkdir(exist_ok=True)
        return path

    def start(self, name, argv, env=None):
        """Starts a process. What it says goes to files, so that no full pipe stops it. If this process is killed,
        it is too."""
        files = [Path(self.directory.name, f"{name}.{kind}") for kind in ("out", "err")]
        with files[0].open("wb") as out, files[1].open("wb") as err:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        process.name, process.out, process.err = name, *files
        self.running.append(process)
        return process

    def says(self, process, text, patience=10):
        """Waits for a line with `text` on standard error, and gives what follows the text there."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for line in process.err.read_text().splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.split(text, 1)[1].strip()
            if process.poll() is not None:
                break
            time.sleep(0.01)
        raise Failed(f"{process.name} did not say '{text}', but: {tail(process)}")

    def finish(self, processes, patience):
        """Waits until all have succeeded, and gives the lines of their standard outputs."""
        deadline = time.monotonic() + patience
        waiting = list(processes)
        while waiting:
            for process in list(waiting):
                if process.poll() is None:
                    continue
                waiting.remove(process)
                if process.returncode != 0:
                    raise Failed(f"{process.name} ended with {process.returncode}: {tail(process)}")
            if waiting and time.monotonic() > deadline:
                names = ", ".join(process.name for process in waiting)
                raise Failed(f"not done after {patience} s: {names}: {tail(waiting[0])}")
            time.sleep(0.01)
        return [line for process in processes for line in process.out.read_text().splitlines()]


def tail(process):
    """The last it said."""
    lines = (process.err.read_text(errors="replace") or process.out.read_text(errors="replace")).splitlines()
    return " | ".join(lines[-5:]) or "(nothing)"
