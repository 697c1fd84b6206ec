"""Draws the figures of a report as SVG."""

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "switchml",  # the same file from the same figures
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "legend.frameon": False,
    }
)

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402

from .measure import amount, duration  # noqa: E402
from .processes import Failed  # noqa: E402

# One look for each contestant in all plots; colours that those who see fewer of them can tell apart.
LOOKS = {
    "SwitchML": ("#0072b2", "o", 2.4),
    "Gloo ring": ("#d55e00", "s", 1.3),
    "PyTorch Gloo": ("#009e73", "^", 1.3),
    "Open MPI ring": ("#cc79a7", "D", 1.3),
    "Open MPI as is": ("#999999", "v", 1.3),
}


def draw(reports, directory):
    """Draws each report to a file that is named after its measurement; gives the files."""
    directory.mkdir(parents=True, exist_ok=True)
    return [path for report in reports for path in DRAWN[report["measurement"]](report, directory)]


def sizes(report, directory):
    ranks = one("number of ranks", report, "n")
    figure, axes = paper(report, f"Time of an all-reduce of float32, {ranks} ranks, loopback")
    curves(axes, report, lambda f: f["octets"], seconds)
    axes.set(xscale="log", yscale="log", xlabel="tensor of each rank", ylabel="time of the slowest rank")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda octets, _: amount(octets)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: duration(time)))
    return [save(figure, axes, directory, report)]


def rates(report, directory):
    octets = one("tensor size", report, "octets")
    figure, axes = paper(report, f"All-reduce of {amount(octets)} of float32, loopback")
    curves(axes, report, lambda f: f["n"], lambda f: [octets * 1e-6 / time for time in seconds(f)])
    axes.set(xlabel="ranks", ylabel="tensor of each rank, MB/s")
    logarithmic(axes)
    return [save(ranks_below(figure, report), axes, directory, report)]


def ideals(report, directory):
    octets = one("tensor size", report, "octets")
    rate = octets * 8 / report["figures"][0]["ideal_seconds"] * 1e-6
    figure, axes = paper(report, f"All-reduce of {amount(octets)} of float32, links of {rate:g} Mbit/s (namespaces)")
    curves(axes, report, lambda f: f["n"], lambda f: [time / f["ideal_seconds"] for time in seconds(f)])
    axes.axhline(1.0, color="#444444", linewidth=1, linestyle="--")
    axes.set(xlabel="ranks", ylabel="time / (tensor's bits / link's rate)")
    logarithmic(axes)
    return [save(ranks_below(figure, report), axes, directory, report)]


def losses(report, directory):
    octets, ranks = one("tensor size", report, "octets"), one("number of ranks", report, "n")
    figure, axes = paper(report, f"Loss on every rank's link: {amount(octets)} of float32, {ranks} ranks (namespaces)")
    done = [f for f in report["figures"] if "seconds" in f]
    clean = {f["contestant"]: f["seconds"]["median"] for f in done if f["loss"] == 0}
    shares = sorted({f["loss"] for f in done})
    compared = {**report, "figures": [f for f in report["figures"] if f["contestant"] in clean]}
    inflation = lambda f: [time / clean[f["contestant"]] for time in seconds(f)]  # noqa: E731
    curves(axes, compared, lambda f: shares.index(f["loss"]), inflation)
    axes.set_xticks(range(len(shares)), [f"{100 * share:g} %" for share in shares])
    axes.set(xlabel="packets lost, each way", ylabel="time / time without loss")
    logarithmic(axes)
    axes.axhline(1.0, color="#444444", linewidth=1, linestyle="--")
    return [save(figure, axes, directory, report)]


# Which plot a measurement has. Two latencies are better read from a table.
DRAWN = {"sizes": sizes, "loopback": rates, "shaped": ideals, "loss": losses, "small": lambda _report, _directory: []}


def seconds(figure):
    return [figure["seconds"][key] for key in ("median", "min", "max")]


def paper(report, title):
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    machine = report["machine"]
    below = f"{machine['processors']} processors ({machine['processor']}), Linux {machine['kernel'].split('-')[0]}"
    axes.set_title(f"{title}\n", loc="left", fontsize=11)
    below = f"medians, smallest to largest shaded; {below}"
    axes.text(0, 1.02, below, transform=axes.transAxes, fontsize=8, color="#555555")
    return figure, axes


def curves(axes, report, across, upwards):
    """A curve of medians for each contestant, and a band from the smallest to the largest."""
    for kind, (colour, marker, width) in LOOKS.items():
        # The cut of SwitchML may differ from point to point.
        of_kind = [f for f in report["figures"] if f["contestant"].startswith(kind) and "seconds" in f]
        if not of_kind:
            continue
        points = sorted((across(f), *upwards(f)) for f in of_kind)
        places, medians, ends, others = zip(*points)
        label = named(kind, of_kind)
        look = {"color": colour, "marker": marker, "linewidth": width, "markersize": 5}
        axes.plot(places, medians, label=label, zorder=2 + width, **look)
        axes.fill_between(places, ends, others, color=colour, alpha=0.12, linewidth=0)


def named(kind, figures):
    """As the legend has it: with the cut of SwitchML, if it is one."""
    names = {figure["contestant"] for figure in figures}
    if len(names) > 1:
        return f"{kind}, the fastest cut at each point"
    return names.pop() if figures[0]["sockets"] else f"{kind} (shared memory)"


def logarithmic(axes):
    """Ratios are alike at both ends of the axis."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def ranks_below(figure, report):
    axes = figure.axes[0]
    axes.set_xticks(sorted({f["n"] for f in report["figures"]}))
    axes.xaxis.set_minor_locator(NullLocator())
    return figure


def one(what, report, key):
    """The value that all figures of a plot share."""
    values = {f[key] for f in report["figures"]}
    if len(values) != 1:
        raise Failed(f"a plot of '{report['measurement']}' has one {what}, and this report {len(values)}")
    return values.pop()


def save(figure, axes, directory, report):
    axes.legend(fontsize=9)
    path = directory / f"{report['measurement']}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
