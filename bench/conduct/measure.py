"""Turns of all contestants, one after the other, so that a noisy moment meets all of them alike."""

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


def alternate(contestants, place, work, turns):
    """The figures of all contestants at one place and work: A B C, A B C, ..."""
    taken = {contestant: [] for contestant in contestants}
    counted = {contestant: {} for contestant in contestants}
    failed = {}
    for _, contestant in itertools.product(range(turns), contestants):
        before = place.dropped()
        try:
            seconds, counters = sample(contestant, place, work)
        except Failed as error:
            # One that fails is named and left out of this comparison; a later turn may go well.
            failed.setdefault(contestant, []).append(str(error))
            taken[contestant].append([])
            note(f"  {contestant.name}: {error}")
            continue
        taken[contestant].append(seconds)
        links = {name: after - before[name] for name, after in place.dropped().items()}
        for name, count in {**counters, **links}.items():
            counted[contestant][name] = counted[contestant].get(name, 0) + count
    return [figure(c, place, work, taken[c], counted[c], failed.get(c, [])) for c in contestants]


def figure(contestant, place, work, turns, counted, failures):
    found = {
        "contestant": contestant.name,
        "ours": isinstance(contestant, SwitchML),
        "sockets": contestant.sockets,
        "place": place.name,
        "loss": place.loss,
        "n": work.world,
        "octets": work.octets,
        "batch": work.batch,
        "failures": failures,
        **counted,
    }
    seconds = [second for turn in turns for second in turn]
    if seconds:
        # Of a turn that failed there is none.
        medians = [statistics.median(turn) if turn else None for turn in turns]
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


def search(variants, place, work, turns):
    """The fastest of several cuts of ours, and what all of them took."""
    figures = alternate(variants, place, work, turns)
    done = [(figure["seconds"]["median"], index) for index, figure in enumerate(figures) if "seconds" in figure]
    if not done:
        raise Failed("no variant of SwitchML succeeded")
    return variants[min(done)[1]], figures


def measure_all(works, places, variants, peers, turns):
    """For each work and place in pairs: searches the best cut of ours, then measures it beside the peers."""
    report = {"figures": [], "comparisons": [], "searches": []}
    for work, place in zip(works, places):
        with place:
            measure_one(report, work, place, variants, peers, turns)
    return report


def measure_one(report, work, place, variants, peers, turns):
    what = f"n = {work.world}, {amount(work.octets)} of float32, {place.name}"
    note(what + (f", loss {100 * place.loss:g} %" if place.loss else ""))
    ours = variants[:1]
    if len(variants) > 1:
        best, figures = search(variants, place, work, turns=1)
        note(f"  of {len(variants)} variants the fastest: {best.name}")
        ours = [best]
        report["searches"].append({"n": work.world, "octets": work.octets, "best": best.name, "figures": figures})
    figures = alternate(ours + [peer for peer in peers if peer.missing(place) is None], place, work, turns)
    for found in figures:
        print(line(found, place), flush=True)
    comparison = compare(figures)
    if comparison:
        ratio = comparison["peer_time_by_our_time"]
        turns_text = f"{ratio['turns']['min']:.2f} to {ratio['turns']['max']:.2f} from turn to turn"
        print(f"  SwitchML is {ratio['of_medians']:.2f} times as fast as {comparison['best_peer']} ({turns_text})")
        report["comparisons"].append(comparison)
    report["figures"] += figures


def line(found, place):
    start = f"  {found['contestant']:<34}"
    if "seconds" not in found:
        return f"{start} FAILED"
    seconds = found["seconds"]
    text = f"{start} {duration(seconds['median']):>9} ({duration(seconds['min'])} to {duration(seconds['max'])})"
    text += f"  {found['megabytes_per_second']:7.1f} MB/s"
    if hasattr(place, "megabits"):
        found["ideal_seconds"] = found["octets"] * 8 / (place.megabits * 1e6)
        text += f"  time / ideal {seconds['median'] / found['ideal_seconds']:.3f}"
    again = found.get("sent_again_after_timeout", 0) + found.get("sent_again_overtaken", 0)
    text += f"  sent again {again} of {found['packets_sent']}" if again else ""
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
