"""All-reduce computed with numpy from the protocol's rules N-1 to N-6, independently of the Rust code.

    python numpy_oracle.py DIRECTORY SEED

writes the input arrays of every rank and the arrays that must come out, to the bit, and `cases.json`, which says
what belongs together. The arrays stored in `data/` were made with seed 1; the test `numpy` makes fresh ones where
SWITCHML_PYTHON names a Python that has numpy.
"""

import json
import pathlib
import sys

import numpy as np

HEADER_EXPONENT_BIAS = 128  # N-2: the packet carries b - 128
QUIET_NAN = np.uint32(0x7FC00000).view(np.float32)  # N-3


def headroom(world_size):
    """h = ceil(log2 n)."""
    return (world_size - 1).bit_length()


def reduce_block(inputs, chunk, mean):
    """N-2 to N-5 over flat arrays of floats, one for each rank."""
    world_size, dtype = len(inputs), inputs[0].dtype
    wide = [array.astype(np.float32) for array in inputs]  # exact for float16
    result = np.empty(wide[0].size, np.float32)
    for start in range(0, result.size, chunk):
        blocks = [array[start : start + chunk] for array in wide]
        result[start : start + chunk] = reduce_one_block(blocks, world_size, mean)
    return result.astype(dtype)


def reduce_one_block(blocks, world_size, mean):
    biased = [int(((block.view(np.uint32) >> 23) & 0xFF).max()) for block in blocks]
    e = max(biased) - HEADER_EXPONENT_BIAS
    if e == 127:
        return np.full(blocks[0].size, QUIET_NAN)
    h = headroom(world_size)
    s = min(31 - h - (max(e + 128, 1) - 126), 125)
    bound = 2 ** (31 - h) - 1
    total = np.zeros(blocks[0].size, np.int64)
    for block in blocks:
        # A binary64 holds the product exactly, so rounding it is the only rounding.
        quantized = np.rint(np.ldexp(block.astype(np.float64), s))
        total += np.clip(quantized, -bound, bound).astype(np.int64)
    assert (np.abs(total) < 2**31).all()
    rounded = total.astype(np.int32).astype(np.float32)
    if mean:
        rounded = rounded / np.float32(world_size)
    return rounded * np.float32(2.0**-s)


def reduce_fixed(inputs, factor, mean):
    """N-6. Returns the result, and whether a chunk is marked is not this test's business."""
    world_size, dtype = len(inputs), inputs[0].dtype
    limit = np.float32((2**31 - 1) / world_size)
    if int(limit) * world_size > 2**31 - 1:
        limit = np.nextafter(limit, np.float32(0))
    total = np.zeros(inputs[0].size, np.int64)
    for array in inputs:
        product = array.astype(np.float32) * np.float32(factor)
        product = np.where(np.isnan(product), np.float32(0), product)
        total += np.rint(np.clip(product, -limit, limit).astype(np.float64)).astype(np.int64)
    rounded = total.astype(np.int32).astype(np.float32)
    if mean:
        rounded = rounded / np.float32(world_size)
    return (rounded / np.float32(factor)).astype(dtype)


def reduce_integer(inputs):
    """N-1: sums wrap."""
    total = np.sum([array.astype(np.int64) for array in inputs], axis=0)
    return (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def gradients(rng, size, dtype):
    """Magnitudes over many binary orders, zeros, and a block each of NaN, infinity, subnormals and huge values."""
    spread = 40 if dtype == np.float32 else 8
    values = rng.standard_normal(size) * np.exp2(rng.integers(-spread, 4, size))
    values[rng.random(size) < 0.1] = 0.0
    values[rng.random(size) < 0.05] = -0.0
    values = values.astype(dtype)
    info = np.finfo(dtype)
    special = {0: np.nan, 1: np.inf, 2: info.max, 3: -info.max, 4: info.smallest_subnormal}
    for kind, value in special.items():
        if rng.random() < 0.5:
            values[int(rng.integers(size))] = value
    quiet = size // 3
    values[quiet : quiet + 300] = (rng.integers(-5, 6, 300) * float(info.smallest_subnormal)).astype(dtype)
    return values


def integers(rng, size):
    return rng.integers(-(2**31), 2**31, size, dtype=np.int64).astype(np.int32)


def layouts(array, kind):
    """The same elements as an array of another layout in its file."""
    if kind == "big-endian":
        return array.astype(array.dtype.newbyteorder(">"))
    if kind == "fortran":
        return np.asfortranarray(array)
    return array


CASES = [
    # name, type, world size, shape, chunk, layout, reductions: (operation, factor or None)
    ("float32", np.float32, 4, (3, 701), 256, "plain", [("sum", None), ("mean", None), ("sum", 1e6)]),
    ("float16", np.float16, 3, (2, 3, 211), 64, "plain", [("sum", None), ("mean", None)]),
    ("int32", np.int32, 2, (777,), 128, "plain", [("sum", None)]),
    ("fortran", np.float32, 2, (33, 17), 32, "fortran", [("mean", None)]),
    ("big-endian", np.float16, 2, (515,), 32, "big-endian", [("sum", None)]),
    ("one-element", np.float32, 2, (), 256, "plain", [("sum", None)]),
    ("empty", np.float32, 2, (0, 5), 256, "plain", [("sum", None)]),
]


def main(directory, seed):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    np.seterr(all="ignore")
    cases = []
    for number, (name, dtype, world_size, shape, chunk, layout, reductions) in enumerate(CASES):
        rng = np.random.default_rng([seed, number])
        size = int(np.prod(shape))
        if size < 600:
            arrays = [rng.standard_normal(shape).astype(dtype) for _ in range(world_size)]
        elif dtype == np.int32:
            arrays = [integers(rng, size).reshape(shape) for _ in range(world_size)]
        else:
            arrays = [gradients(rng, size, dtype).reshape(shape) for _ in range(world_size)]
        inputs = [f"{name}-rank{rank}.npy" for rank in range(world_size)]
        for file, array in zip(inputs, arrays):
            np.save(directory / file, layouts(array, layout))
        order = "F" if layout == "fortran" else "C"
        flat = [array.flatten(order=order) for array in arrays]  # the chunks follow the order in the file
        for operation, factor in reductions:
            if dtype == np.int32:
                result = reduce_integer(flat)
            elif factor is not None:
                result = reduce_fixed(flat, factor, operation == "mean")
            else:
                result = reduce_block(flat, chunk, operation == "mean")
            expected = f"{name}-{operation}{'' if factor is None else '-fixed'}.npy"
            np.save(directory / expected, result.reshape(shape, order=order))
            case = {"inputs": inputs, "operation": operation, "factor": factor, "chunk": chunk, "expected": expected}
            cases.append(case)
    (directory / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
