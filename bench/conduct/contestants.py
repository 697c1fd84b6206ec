"""What is measured: SwitchML, and the peers. Each reduces the same tensors, times them alike and checks every sum."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .places import SWITCH, Star
from .processes import Failed, Processes, output

ROOT = Path(__file__).resolve().parents[2]
RANKS = ROOT / "bench" / "ranks"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
BUILT = TARGET / "bench"

TOOLS = ["iproute2", "nftables", "ethtool", "g++", "python3-matplotlib"]


@dataclass(frozen=True)
class Work:
    """What the ranks do: `rounds` times `batch` tensors of `octets` octets each."""

    world: int
    octets: int
    batch: int
    rounds: int

    def options(self):
        given = {"octets": self.octets, "batch": self.batch, "rounds": self.rounds}
        return [word for name, value in given.items() for word in (f"--{name}", str(value))]

    def patience(self):
        """Seconds after which it hangs: as slow as 1 MB/s through one rank after the other, and a minute."""
        return 60 + self.world * self.octets * self.batch * self.rounds / 1e6


@dataclass(frozen=True)
class SwitchML:
    """This project: the software switch in a process, and a process for each rank."""

    chunk: int = 256
    window: int = 128
    lanes: int = 1

    packages = ()
    sockets = True
    injects_loss = True
    program = TARGET / "release" / "switchml"

    @property
    def name(self):
        return f"SwitchML k={self.chunk} W={self.window} lanes={self.lanes}"

    def missing(self, _place):
        return None

    def build(self):
        command = "cargo build --quiet --release -p switchml-host-std --bin switchml".split()
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise Failed("the program `switchml` could not be built")

    def run(self, place, work, processes):
        listen = f"--listen {place.address(SWITCH)} --port-base 0 --lanes {self.lanes} --max-chunk {self.chunk}"
        slots = max(4096, self.window)
        command = [self.program, "switch", *listen.split(), "--slots", str(slots), "--loss", str(place.injected_loss)]
        switch = processes.start("switch", place.command(SWITCH, command))
        address = processes.says(switch, "listening on ").split(",")[0]
        cut = f"--chunk {self.chunk} --window {self.window} --lanes {self.lanes}"
        ranks = []
        for rank in range(work.world):
            who = f"--switch {address} --rank {rank} --world {work.world} --json {cut}"
            command = [self.program, "bench", "rank", *who.split(), *work.options()]
            ranks.append(processes.start(f"rank {rank}", place.command(rank, command)))
        return processes.finish(ranks, work.patience())


@dataclass(frozen=True)
class GlooRing:
    """Gloo's ring over TCP, called from C++."""

    name = "Gloo ring"
    packages = ("libgloo-dev", "g++")
    sockets = True
    injects_loss = False
    program = BUILT / "gloo_ring"

    def missing(self, _place):
        return None if Path("/usr/include/gloo/allreduce.h").exists() else "libgloo-dev is not installed"

    def build(self):
        compile_rank("g++", "-std=c++17", RANKS / "gloo_ring.cc", self.program, "-lgloo", "-pthread")

    def run(self, place, work, processes):
        ranks = []
        for rank in range(work.world):
            who = f"--rank {rank} --world {work.world} --address {place.address(rank)} --store {processes.store()}"
            command = [self.program, *who.split(), *work.options()]
            ranks.append(processes.start(f"rank {rank}", place.command(rank, command)))
        return processes.finish(ranks, work.patience())


@dataclass(frozen=True)
class TorchGloo:
    """PyTorch's process group over Gloo, as a training script calls it."""

    name = "PyTorch Gloo"
    packages = ("python3-torch",)
    sockets = True
    injects_loss = False

    def missing(self, _place):
        if any(Path("/usr/lib/python3/dist-packages/torch").glob("__init__.py")):
            return None
        return "python3-torch is not installed"

    def build(self):
        pass

    def run(self, place, work, processes):
        environment = {"GLOO_SOCKET_IFNAME": place.interface, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        ranks = []
        for rank in range(work.world):
            who = f"--rank {rank} --world {work.world} --store {processes.store()}"
            command = ["/usr/bin/python3", RANKS / "torch_gloo.py", *who.split(), *work.options()]
            ranks.append(processes.start(f"rank {rank}", place.command(rank, command), environment))
        return processes.finish(ranks, work.patience())


@dataclass(frozen=True)
class OpenMPI:
    """MPI_Allreduce of Open MPI: its ring over TCP, or what it chooses itself."""

    ring: bool

    packages = ("openmpi-bin", "libopenmpi-dev", "g++")
    injects_loss = False
    program = BUILT / "mpi_allreduce"

    @property
    def name(self):
        return "Open MPI ring" if self.ring else "Open MPI as is"

    @property
    def sockets(self):
        # As is, it uses shared memory between processes of one machine.
        return self.ring

    def missing(self, place):
        if not self.ring and isinstance(place, Star):
            # Network namespaces do not keep processes from sharing memory: that would not be the network.
            return "over links, Open MPI is measured with its ring over TCP"
        return None if shutil.which("mpicc") and shutil.which("mpirun") else "Open MPI is not installed"

    def build(self):
        compile_rank("mpicc", "-std=gnu11", RANKS / "mpi_allreduce.c", self.program)

    def run(self, place, work, processes):
        parameters = {}
        if self.ring:
            # Algorithm 4 of coll_tuned's all-reduce is the ring.
            parameters |= {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": 4}
            parameters |= {"btl": "tcp,self", "btl_tcp_if_include": place.interface}
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(work.world)]
        if isinstance(place, Star):
            hosts = ",".join(f"{place.address(rank)}:1" for rank in range(work.world))
            command += ["--host", hosts]
            agent = f"{ROOT / 'bench' / 'in-namespace'} {place.prefix}"
            parameters |= {"plm_rsh_agent": agent, "oob_tcp_if_include": place.interface}
            # It takes each namespace for a machine, whose processors nobody else needs.
            parameters["mpi_yield_when_idle"] = 1
        for name, value in parameters.items():
            command += ["--mca", name, str(value)]
        command += [self.program, *work.options()]
        return processes.finish([processes.start("mpirun", place.command(SWITCH, command))], work.patience())


PEERS = {"gloo": GlooRing(), "torch": TorchGloo(), "mpi-ring": OpenMPI(ring=True), "mpi": OpenMPI(ring=False)}


def compile_rank(compiler, standard, source, program, *libraries):
    BUILT.mkdir(parents=True, exist_ok=True)
    output(compiler, standard, "-O3", "-march=native", "-Wall", "-Wextra", "-o", program, source, *libraries)


def install(contestants):
    """Debian's packages of the peers and of what conducts them, as far as they are missing."""
    packages = sorted({*TOOLS, *(package for contestant in contestants for package in contestant.packages)})
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        ended = subprocess.run(["apt-get", *command], env=environment, stdout=subprocess.DEVNULL, check=False)
        if ended.returncode != 0:
            raise Failed(f"`apt-get {' '.join(command)}` failed; is this machine online, and are you root?")


def installed(package):
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout == "installed"


def sample(contestant, place, work):
    """Runs it once: seconds a tensor, of the slowest rank in each round but the first, and what the ranks counted."""
    with Processes() as processes:
        lines = contestant.run(place, work, processes)
    ranks = [json.loads(line) for line in lines if line.startswith("{")]
    expected = work.rounds * work.batch * (work.octets // 4)
    if sorted(rank["rank"] for rank in ranks) != list(range(work.world)):
        raise Failed(f"{contestant.name}: not every rank told what it measured: {lines}")
    if any(rank["checked"] != expected or len(rank["seconds"]) != work.rounds for rank in ranks):
        raise Failed(f"{contestant.name}: a rank did not check all of {expected} sums")
    slowest = [max(times) / work.batch for times in zip(*(rank["seconds"] for rank in ranks))]
    counters = ("packets_sent", "sent_again_after_timeout", "sent_again_overtaken")
    counted = {name: sum(rank[name] for rank in ranks) for name in counters if name in ranks[0]}
    return slowest[1:], counted
