"""A rank that all-reduces with PyTorch's process group over Gloo. It does what rank.h does for the other programs."""

import argparse
import json
import sys
import time

import torch
import torch.distributed as dist

PERIOD = 251


def main():
    parser = argparse.ArgumentParser()
    for name in ("rank", "world", "octets", "batch", "rounds"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--store", required=True, help="a directory in which the ranks find each other")
    options = parser.parse_args()

    # The sums are Gloo's; more threads for the copies around them only disturb the other ranks.
    torch.set_num_threads(1)
    # The interface is the one that GLOO_SOCKET_IFNAME names.
    dist.init_process_group(
        "gloo", init_method=f"file://{options.store}/torch", rank=options.rank, world_size=options.world
    )
    elements = options.octets // 4
    tensors = [torch.empty(elements) for _ in range(options.batch)]
    seconds = []
    for number in range(options.rounds):
        for place, tensor in enumerate(tensors):
            tensor.copy_(repeated(period(options.rank, number, place), elements))
        dist.barrier()
        start = time.monotonic()
        for tensor in tensors:
            dist.all_reduce(tensor)
        seconds.append(time.monotonic() - start)
        dist.barrier()  # no rank checks while others still reduce: they share processors
        for place, tensor in enumerate(tensors):
            expected = sum(period(rank, number, place) for rank in range(options.world))
            if not torch.equal(tensor, repeated(expected, elements)):
                sys.exit(f"rank {options.rank}, round {number}, tensor {place}: the sums are wrong")
    checked = options.batch * elements * options.rounds
    print(json.dumps({"rank": options.rank, "checked": checked, "seconds": seconds}), flush=True)
    dist.barrier()


def period(rank, number, tensor):
    """The elements of a tensor, which repeat."""
    places = torch.arange(PERIOD)
    return ((places + 37 * rank + 53 * number + 101 * tensor) % PERIOD - PERIOD // 2).float()


def repeated(part, elements):
    return part.repeat(elements // PERIOD + 1)[:elements]


main()
