"""Turns of all contestants, one after the other, so that a noisy moment meets all of them alike."""

import contextlib
import datetime
import itertools
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from .contestants import ROOT, SwitchML, Work, sample
from .processes import Failed

# A round lasts long enough to be timed: of small tensors it reduces many, but not more than these.
ROUND_OCTETS = 10_000_000
BATCH = 200


def batch(octets):
    return max(1, min(BATCH, ROUND_OCTETS // octets))


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


class Series:
    """One contestant at one place, turn by turn."""

    def __init__(self, contestant, place):
        self.contestant, self.place = contestant, place
        self.turns, self.counted, self.failures = [], {}, []

    def turn(self, work):
        before = self.place.dropped()
        try:
            seconds, counters = sample(self.contestant, self.place, work)
        except Failed as error:
            # It is named and has no samples of this turn; a later turn may go well.
            note(f"  {self.contestant.name}: {error}")
            self.failures.append(str(error))
            self.turns.append([])
            return
        self.turns.append(seconds)
        links = {name: after - before[name] for name, after in self.place.dropped().items()}
        for name, count in {**counters, **links}.items():
            self.counted[name] = self.counted.get(name, 0) + count


def alternate(contestants, places, work, turns):
    """The figures of all contestants at all places: A B C, A B C, ..."""
    series = [Series(one, place) for place in places for one in contestants if place.suits(one)]
    for _, one in itertools.product(range(turns), series):
        one.turn(work)
    return [figure(one, work) for one in series]


def figure(series, work):
    found = {
        "contestant": series.contestant.name,
        "ours": isinstance(series.contestant, SwitchML),
        "sockets": series.contestant.sockets,
        "place": series.place.name,
        "loss": series.place.loss,
        "n": work.world,
        "octets": work.octets,
        "batch": work.batch,
        "failures": series.failures,
        **series.counted,
    }
    if series.place.megabits:
        found["ideal_seconds"] = work.octets * 8 / (series.place.megabits * 1e6)
    seconds = [second for turn in series.turns for second in turn]
    if seconds:
        # Of a turn that failed there is none.
        medians = [statistics.median(turn) if turn else None for turn in series.turns]
        found["seconds"] = {**spread(seconds), "turns": medians}
        found["megabytes_per_second"] = 1e-6 * work.octets / found["seconds"]["median"]
    return found


def compare(figures):
    """Ours against the best of the peers that use sockets too, within the run; how it varied from turn to turn."""
    done = [figure for figure in figures if "seconds" in figure]
    ours = [figure for figure in done if figure["ours"]]
    peers = [figure for figure in done if figure["sockets"] and not figure["ours"]]
    if not ours or not peers:
        return None
    best = min(peers, key=lambda figure: figure["seconds"]["median"])
    turns = zip(best["seconds"]["turns"], ours[0]["seconds"]["turns"])
    ratios = [theirs / own for theirs, own in turns if theirs and own]
    ratio = best["seconds"]["median"] / ours[0]["seconds"]["median"]
    return {
        "ours": ours[0]["contestant"],
        "best_peer": best["contestant"],
        "n": ours[0]["n"],
        "octets": ours[0]["octets"],
        "loss": ours[0]["loss"],
        "peer_time_by_our_time": {"of_medians": ratio, "turns": spread(ratios or [ratio])},
    }


def compare_with_no_loss(figures):
    """Tells each figure with loss how many times longer it took than that of the same contestant without."""
    done = [figure for figure in figures if "seconds" in figure]
    lossless = {figure["contestant"]: figure["seconds"] for figure in done if not figure["loss"]}
    for found in done:
        base = lossless.get(found["contestant"])
        if found["loss"] and base:
            turns = zip(found["seconds"]["turns"], base["turns"])
            ratios = [own / without for own, without in turns if own and without]
            ratio = found["seconds"]["median"] / base["median"]
            found["time_by_time_without_loss"] = {"of_medians": ratio, "turns": spread(ratios or [ratio])}


def search(variants, place, work):
    """The fastest of several cuts of ours, and what all of them took."""
    figures = alternate(variants, [place], work, turns=1)
    done = [(figure["seconds"]["median"], index) for index, figure in enumerate(figures) if "seconds" in figure]
    if not done:
        raise Failed("no variant of SwitchML succeeded")
    return variants[min(done)[1]], figures


def measure_all(scenes, variants, peers, turns):
    """For each scene, which is work and the places where it is done: the best cut of ours, and it beside the peers."""
    report = {"figures": [], "comparisons": [], "searches": []}
    for work, places in scenes:
        with contextlib.ExitStack() as stack:
            for place in places:
                stack.enter_context(place)
            measure_one(report, work, places, variants, peers, turns)
    return report


def measure_one(report, work, places, variants, peers, turns):
    note(f"n = {work.world}, {amount(work.octets)} of float32, {places[0].name}")
    ours = variants[0]
    if len(variants) > 1:
        ours, figures = search(variants, places[0], work)
        note(f"  of {len(variants)} variants the fastest: {ours.name}")
        report["searches"].append({"n": work.world, "octets": work.octets, "best": ours.name, "figures": figures})
    contestants = [ours, *(peer for peer in peers if peer.missing(places[0]) is None)]
    figures = alternate(contestants, places, work, turns)
    compare_with_no_loss(figures)
    for loss in sorted({place.loss for place in places}):
        tell([figure for figure in figures if figure["loss"] == loss], report)
    report["figures"] += figures


def tell(figures, report):
    """Prints the figures of one place, and compares them."""
    first = figures[0]
    loss = f", loss {100 * first['loss']:g} %" if first["loss"] else ""
    where = "; ".join(dict.fromkeys(figure["place"] for figure in figures))
    print(f"n = {first['n']}, {amount(first['octets'])} of float32, {where}{loss}")
    for found in figures:
        print(line(found), flush=True)
    comparison = compare(figures)
    if comparison:
        ratio = comparison["peer_time_by_our_time"]
        spread_text = f"{ratio['turns']['min']:.2f} to {ratio['turns']['max']:.2f} from turn to turn"
        print(f"  SwitchML is {ratio['of_medians']:.2f} times as fast as {comparison['best_peer']} ({spread_text})")
        report["comparisons"].append(comparison)


def line(found):
    start = f"  {found['contestant']:<34}"
    if "seconds" not in found:
        return f"{start} FAILED"
    seconds = found["seconds"]
    text = f"{start} {duration(seconds['median']):>9} ({duration(seconds['min'])} to {duration(seconds['max'])})"
    text += f"  {found['megabytes_per_second']:7.1f} MB/s"
    if "ideal_seconds" in found:
        text += f"  time / ideal {seconds['median'] / found['ideal_seconds']:.3f}"
    if "time_by_time_without_loss" in found:
        ratio = found["time_by_time_without_loss"]
        turns = f"{ratio['turns']['min']:.2f} to {ratio['turns']['max']:.2f}"
        text += f"  time / without loss {ratio['of_medians']:.3f} ({turns})"
    again = found.get("sent_again_after_timeout", 0) + found.get("sent_again_overtaken", 0)
    text += f"  sent again {again}, once {found['packets_sent']}" if again else ""
    dropped = found.get("dropped_by_full_queues", 0)
    text += f"  full queues dropped {dropped}" if dropped else ""
    return text + ("" if found["sockets"] else "  (shared memory)")


def duration(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} us"


def amount(octets):
    for unit, size in (("MB", 1_000_000), ("KB", 1000)):
        if octets >= size:
            return f"{octets / size:g} {unit}"
    return f"{octets} octets"


def works(worlds, sizes, rounds):
    return [Work(world, octets, batch(octets), rounds + 1) for world in worlds for octets in sizes]


def machine(contestants):
    """What the figures were measured on, and how busy it was."""
    text = Path("/proc/cpuinfo").read_text()
    models = [row.split(":", 1)[1].strip() for row in text.splitlines() if row.startswith("model name")]
    packages = sorted({package for contestant in contestants for package in contestant.packages})
    return {
        "processor": models[0] if models else platform.machine(),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": said("git", "-C", ROOT, "describe", "--always", "--dirty"),
        "packages": dict(row.split("\t") for row in said_lines("dpkg-query", "-W", *packages)),
    }


def said(*argv):
    return "\n".join(said_lines(*argv))


def said_lines(*argv):
    """What a command that may be missing prints."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        return []


def note(text):
    print(text, file=sys.stderr, flush=True)
