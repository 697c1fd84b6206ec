"""Where the ranks run: all of this machine on loopback, or each in a network namespace at a shaped link."""

import itertools
import json
import os
import re
import shutil
from pathlib import Path

from .processes import output

SWITCH = "switch"
BRIDGE = "bridge"


class Loopback:
    """All processes in the namespace of the caller."""

    name = "loopback"
    interface = "lo"
    megabits = None  # nothing limits it
    loss = 0.0
    injected_loss = 0.0

    def suits(self, _contestant):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, _node):
        return "127.0.0.1"

    def command(self, _node, argv):
        return argv

    def dropped(self):
        return {}


class Star:
    """A star: a bridge in a namespace of its own, and around it a namespace for each rank and one for the switch.

    Each rank's link has a token bucket in both directions. The switch's link has none: a switch in the network has
    all links of the bridge. Loss hits each packet on a rank's link with the same chance, in both directions: either the
    bridge loses it, or the software switch as it receives and sends, which spares the segmentation offloads.
    Nothing outside these namespaces is changed. Their names carry the id of this process, so that `clean` can tell
    what is left of one that was killed.
    """

    interface = "eth0"
    PREFIX = "smlbench"
    count = itertools.count()

    def __init__(self, ranks, megabits=1000, mtu=1500, loss=0.0, loser=None):
        self.ranks, self.megabits, self.mtu, self.loss, self.loser = ranks, megabits, mtu, loss, loser
        self.injected_loss = loss if loser == SWITCH else 0.0
        # Otherwise a whole super-packet would be lost at a time.
        self.offloads = loser != BRIDGE
        self.prefix = f"{self.PREFIX}-{os.getpid()}-{next(self.count)}"
        self.nodes = [*range(ranks), SWITCH]

    @property
    def name(self):
        burst = "burst of 1 ms, queue of 4 MB"
        text = f"namespaces around a bridge, {self.megabits} Mbit/s each way at each rank ({burst}), MTU {self.mtu}"
        return text + ("" if self.offloads else ", segmentation offloads off")

    def suits(self, contestant):
        """Whether it loses the contestant's packets in the way that is fair to it."""
        return self.loser is None or (self.loser == SWITCH) == contestant.injects_loss

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespace in namespaces():
            if namespace.startswith(f"{self.prefix}-"):
                output("ip", "netns", "delete", namespace)

    def build(self):
        hub = self.namespace("hub")
        output("ip", "netns", "add", hub)
        bridge = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        output("ip", "-n", hub, "link", "add", "br0", "mtu", str(self.mtu), *bridge.split())
        output("ip", "-n", hub, "link", "set", "br0", "up")
        for node in self.nodes:
            self.attach(node, hub)
        if self.loser == BRIDGE and self.loss > 0.0:
            self.lose(hub)

    def attach(self, node, hub):
        own, port, mtu = self.namespace(node), f"port-{node}", str(self.mtu)
        output("ip", "netns", "add", own)
        ends = f"link add eth0 mtu {mtu} type veth peer name {port} mtu {mtu} netns {hub}"
        output("ip", "-n", own, *ends.split())
        output("ip", "-n", own, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
        output("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
        for device in ("lo", "eth0"):
            output("ip", "-n", own, "link", "set", device, "up")
        if not self.offloads:
            off = "tso off gso off gro off tx-udp-segmentation off"
            for namespace, device in ((own, "eth0"), (hub, port)):
                output("ip", "netns", "exec", namespace, "ethtool", "-K", device, *off.split())
        if node != SWITCH:
            burst = self.megabits * 1_000_000 // 8 // 1000  # octets in 1 ms
            shape = f"root tbf rate {self.megabits}mbit burst {burst} limit 4mb"
            for namespace, device in ((own, "eth0"), (hub, port)):
                output("tc", "-n", namespace, "qdisc", "add", "dev", device, *shape.split())

    def lose(self, hub):
        unlucky = round(self.loss * 1_000_000)
        ports = ", ".join(f'"port-{rank}"' for rank in range(self.ranks))
        chance = f"meta protocol ip numgen random mod 1000000 < {unlucky} counter drop"
        rules = f"""
            add table bridge loss
            add chain bridge loss in {{ type filter hook prerouting priority 0; }}
            add chain bridge loss out {{ type filter hook postrouting priority 0; }}
            add rule bridge loss in iifname {{ {ports} }} {chance}
            add rule bridge loss out oifname {{ {ports} }} {chance}
        """
        output("ip", "netns", "exec", hub, "nft", rules)

    def namespace(self, node):
        return f"{self.prefix}-{node}"

    def address(self, node):
        return "10.77.0.200" if node == SWITCH else f"10.77.0.{node + 1}"

    def command(self, node, argv):
        return ["ip", "netns", "exec", self.namespace(node), *argv]

    def dropped(self):
        """Packets that the links lost by chance, and that found their queues full, since the start."""
        hub, queues = self.namespace("hub"), 0
        for namespace in [hub, *map(self.namespace, range(self.ranks))]:
            for qdisc in json.loads(output("tc", "-n", namespace, "-s", "-j", "qdisc", "show")):
                if qdisc["kind"] == "tbf":
                    queues += qdisc["drops"]
        chance = 0
        if self.loser == BRIDGE and self.loss > 0.0:
            rules = output("ip", "netns", "exec", hub, "nft", "list", "table", "bridge", "loss")
            chance = sum(map(int, re.findall(r"packets (\d+)", rules)))
        return {"lost_by_chance": chance, "dropped_by_full_queues": queues}


def refusal():
    """Why there can be no star here; None if it can."""
    if os.geteuid() != 0:
        return "it needs root, to make network namespaces"
    missing = [tool for tool in ("ip", "tc", "nft", "ethtool") if shutil.which(tool) is None]
    return f"missing: {', '.join(missing)}; install with --install" if missing else None


def namespaces():
    return [line.split()[0] for line in output("ip", "netns", "list").splitlines() if line.strip()]


def clean():
    """Deletes the namespaces of measurements whose process is gone; gives their names."""
    gone = []
    for namespace in namespaces():
        match = re.fullmatch(rf"{Star.PREFIX}-(\d+)-.*", namespace)
        if match and not Path("/proc", match[1]).exists():
            output("ip", "netns", "delete", namespace)
            gone.append(namespace)
    return gone
