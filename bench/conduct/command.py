"""The command line of bench/run."""

import argparse
import functools
import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

from . import contestants, measure, places
from .processes import Failed

SKIPPED = 77  # the exit code of a measurement that cannot be made on this machine


def main(arguments):
    options = parser().parse_args(arguments)
    return options.run(options) or 0


def parser():
    top = argparse.ArgumentParser(prog="bench/run", description="SwitchML beside others: see bench/README.md")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, (what, defaults) in MEASUREMENTS.items():
        command = commands.add_parser(name, help=what, description=what)
        command.set_defaults(run=conduct, measurement=name)
        measurement_options(command, defaults)
    plot = commands.add_parser("plot", help="draw SVG plots from JSON results")
    plot.add_argument("results", nargs="+", type=Path, metavar="FILE")
    plot.add_argument("--out", type=Path, required=True, metavar="DIR")
    plot.set_defaults(run=draw)
    check = commands.add_parser("check", help="tiny measurements of every kind, to see that all of it works")
    check.add_argument("--install", action="store_true", help="install the peers' packages with apt first")
    check.set_defaults(run=check_all)
    commands.add_parser("clean", help="delete namespaces that a killed measurement has left").set_defaults(run=clean)
    return top


# name: what it is, and its defaults.
MEASUREMENTS = {
    "loopback": ("large tensors between processes on loopback", {"n": [2, 4, 8], "octets": [100_000_000]}),
    "small": ("latency of small tensors on loopback", {"n": [4], "octets": [1000, 1_000_000], "rounds": 10}),
    "sizes": ("time against tensor size on loopback", {"n": [4], "octets": [1000 * 4**e for e in range(9)]}),
    "shaped": ("a star of shaped links, in namespaces; root", {"n": [2, 4, 8], "octets": [16_000_000]}),
    "loss": ("shaped links that lose packets; root", {"n": [4], "octets": [16_000_000], "loss": [0, 0.01, 0.1, 1]}),
}


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def numbers(text):
    return [positive(part) for part in text.split(",")]


def sizes(text):
    """Whole float32 elements, as 1000, 16k or 100M octets."""
    units = {"k": 1000, "M": 1_000_000}
    parts = [(part[:-1], units[part[-1]]) if part[-1:] in units else (part, 1) for part in text.split(",")]
    octets = [positive(number) * unit for number, unit in parts]
    if any(size % 4 for size in octets):
        raise ValueError(text)
    return octets


def percentages(text):
    shares = [float(part) for part in text.split(",")]
    if not all(0 <= share <= 100 for share in shares):
        raise ValueError(text)
    return shares


def names(text):
    return [name for name in text.split(",") if name]


def measurement_options(command, defaults):
    add = command.add_argument
    add("--n", type=numbers, default=defaults["n"], metavar="LIST", help="ranks (%(default)s)")
    add(
        "--octets",
        type=sizes,
        default=defaults["octets"],
        metavar="LIST",
        help="of each tensor, as 1000, 16k or 100M (%(default)s)",
    )
    add("--turns", type=positive, default=5, help="of all contestants, in alternation (%(default)s)")
    add(
        "--rounds",
        type=positive,
        default=defaults.get("rounds", 3),
        help="of each turn, after one that is not counted (%(default)s)",
    )
    add("--peers", type=names, default=list(contestants.PEERS), metavar="LIST", help="(%(default)s)")
    for name, default, what in (("chunk", 256, "elements a packet"), ("window", 128, "slots"), ("lanes", 1, "lanes")):
        add(
            f"--{name}",
            type=numbers,
            default=[default],
            metavar="LIST",
            help=f"SwitchML's {what}; of several the fastest is searched first (%(default)s)",
        )
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--install", action="store_true", help="install the peers' packages with apt first")
    if "loss" in defaults or command.prog.endswith("shaped"):
        add("--rate", type=positive, default=1000, metavar="MBIT", help="Mbit/s of each rank's link (%(default)s)")
        add("--mtu", type=positive, default=1500, help="octets (%(default)s)")
    if "loss" in defaults:
        add(
            "--loss",
            type=percentages,
            default=defaults["loss"],
            metavar="LIST",
            help="per cent of the packets on each rank's link, each way (%(default)s)",
        )


def conduct(options):
    """Makes one measurement, and writes its report."""
    for name in options.peers:
        if name not in contestants.PEERS:
            raise Failed(f"there is no peer '{name}', but: {', '.join(contestants.PEERS)}")
    peers = [contestants.PEERS[name] for name in options.peers]
    variants = [
        contestants.SwitchML(chunk, window, lanes)
        for chunk, window, lanes in itertools.product(options.chunk, options.window, options.lanes)
    ]
    if options.install:
        contestants.install(peers)
    scenes = plan(options)
    if scenes is None:
        return SKIPPED
    peers = [peer for peer in peers if available(peer, scenes[0][1][0])]
    for contestant in [variants[0], *peers]:
        contestant.build()
    # Before the measurement, so that the load is that of others.
    machine = measure.machine([*variants, *peers])
    report = {"measurement": options.measurement, "machine": machine, "turns": options.turns, "rounds": options.rounds}
    report |= measure.measure_all(scenes, variants, peers, options.turns)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    failures = [figure["contestant"] for figure in report["figures"] if figure["failures"]]
    if failures:
        raise Failed(f"failed in some turns: {', '.join(sorted(set(failures)))}")
    return 0


def plan(options):
    """Scenes: work, and the places where it is done in alternation. None where there can be no such places."""
    works = measure.works(options.n, options.octets, options.rounds)
    if options.measurement not in ("shaped", "loss"):
        return [(work, [places.Loopback()]) for work in works]
    why = places.refusal()
    if why:
        print(f"SKIPPED {options.measurement}: {why}")
        return None
    places.clean()
    star = functools.partial(places.Star, megabits=options.rate, mtu=options.mtu)
    if options.measurement == "shaped":
        return [(work, [star(work.world)]) for work in works]
    losses = [percent / 100 for percent in options.loss]
    losers = (places.SWITCH, places.BRIDGE)
    return [(work, [star(work.world, loss=loss, loser=loser) for loss in losses for loser in losers]) for work in works]


def available(peer, place):
    why = peer.missing(place)
    if why:
        print(f"SKIPPED {peer.name}: {why}")
    return why is None


def draw(options):
    from . import plot  # matplotlib is needed for this alone

    for path in plot.draw([json.loads(path.read_text()) for path in options.results], options.out):
        print(path)


def clean(_options):
    if os.geteuid() != 0:
        raise Failed("it needs root, to delete network namespaces")
    for namespace in places.clean():
        print(f"deleted {namespace}")


def check_all(options):
    """Every measurement and plot, tiny. Its figures say nothing."""
    if os.geteuid() != 0:
        print("SKIPPED: it needs root, to make network namespaces and to install the peers")
        return SKIPPED
    if options.install and shutil.which("apt-get") is None:
        print("SKIPPED: it installs the peers with apt, which is not here")
        return SKIPPED
    if options.install:
        contestants.install(contestants.PEERS.values())
    tiny = {
        "loopback": "--n 2,3 --octets 1M --window 64,128",
        "small": "--n 2 --octets 1000 --rounds 1",
        "sizes": "--n 2 --octets 1000,100k",
        "shaped": "--n 2,3 --octets 1M",
        "loss": "--n 2 --octets 4M --loss 0,1",
    }
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as directory:
        results = []
        for name, words in tiny.items():
            print(f"--- {name} {words}", flush=True)
            file = Path(directory, f"{name}.json")
            arguments = [name, "--turns", "1", "--json", str(file), *(["--rounds", "1"] if name != "small" else [])]
            code = main([*arguments, *words.split()])
            if code:
                return code
            results.append(json.loads(file.read_text()))
        expect_all(results)
        plots = main(["plot", *(str(Path(directory, f"{name}.json")) for name in tiny), "--out", directory])
    left = [name for name in places.namespaces() if name.startswith(f"{places.Star.PREFIX}-{os.getpid()}-")]
    if left:
        raise Failed(f"namespaces are left: {', '.join(left)}")
    return plots


def expect_all(results):
    """No contestant is missing anywhere, and the links did lose packets."""
    for report in results:
        count = len(contestants.PEERS) + (report["measurement"] not in ("shaped", "loss"))
        for key in {(figure["n"], figure["octets"], figure["loss"]) for figure in report["figures"]}:
            here = [f for f in report["figures"] if (f["n"], f["octets"], f["loss"]) == key and "seconds" in f]
            if len(here) != count:
                names = ", ".join(figure["contestant"] for figure in here)
                raise Failed(f"{report['measurement']}: not all contestants were measured, but: {names}")
            lost = ("lost_by_chance", "sent_again_overtaken", "sent_again_after_timeout")
            if any(figure["loss"] and not any(figure.get(name) for name in lost) for figure in here):
                raise Failed("links that should lose packets lost none")
