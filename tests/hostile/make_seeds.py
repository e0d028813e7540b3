#!/usr/bin/env python3
"""Makes the small files, written by other libraries, that tests and fuzz targets start from.

    python3 tests/hostile/make_seeds.py FOLDER

FOLDER (in the tree: tests/fuzz/corpus) gets .npy and .npz files by NumPy and Python's zipfile, and
.safetensors files by the safetensors package, each format in a folder of its own. Every array holds 1, 2, 3, ... in C order (booleans: odd
numbers are true), so that a test can check the values without this script. Made with NumPy 2.4.6 and
safetensors 0.8.0; both are needed only here.
"""

import io
import os
import sys
import zipfile

import numpy as np
from safetensors.numpy import save_file

TYPES = ["f2", "f4", "f8", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "b1"]
SHAPE = [2, 3, 1, 2, 1, 2, 1, 2]


def counted(shape, dtype):
    n = np.arange(1, 1 + int(np.prod(shape)))
    return (n % 2 == 1 if dtype == "b1" else n).astype(dtype).reshape(shape)


def npy_bytes(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version, allow_pickle=True)
    return out.getvalue()


def write_npy(name, array, version=None):
    with open(f"npy/{name}", "wb") as f:
        f.write(npy_bytes(array, version))


def fixed(name):
    return zipfile.ZipInfo(name)  # of 1 January 1980


def main():
    os.chdir(sys.argv[1])
    for folder in ("npy", "npz", "safetensors"):
        os.makedirs(folder, exist_ok=True)

    for dtype in TYPES:
        write_npy(f"type_{dtype}.npy", counted((2, 3), dtype))
    for rank in range(9):
        write_npy(f"rank_{rank}_c.npy", counted(SHAPE[:rank], "f4"))
        if rank >= 2:  # below, both orders are the same and NumPy says C
            write_npy(f"rank_{rank}_fortran.npy", np.asfortranarray(counted(SHAPE[:rank], "f4")))
    write_npy("empty.npy", counted((2, 0, 3), "f8"))
    write_npy("version_2.npy", counted((2, 3), "f4"), (2, 0))
    write_npy("version_3.npy", counted((2, 3), "f4"), (3, 0))

    # Refused: what NumPy writes and this library does not read.
    write_npy("refused_object.npy", np.array([{"a": 1}, None], dtype=object))
    write_npy("refused_big_endian.npy", counted((2, 3), ">f4"))
    write_npy("refused_complex.npy", counted((2, 3), "c8"))
    write_npy("refused_structured.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
    write_npy("refused_unicode.npy", np.array(["ab", "c"]))
    write_npy("refused_datetime.npy", np.array(["2020-01-01"], dtype="datetime64[D]"))
    write_npy("refused_long_double.npy", counted((2, 3), np.longdouble))
    write_npy("refused_void.npy", np.zeros(2, dtype="V4"))

    arrays = {f"{d}": counted((2, 3), d) for d in TYPES}
    np.savez("npz/stored.npz", **arrays)
    np.savez_compressed("npz/deflated.npz", **arrays)
    np.savez("npz/no_members.npz")
    np.savez("npz/nested_names.npz", **{"layer/0/w\u00e9ight": counted((3,), "f4")})

    # Python's zipfile writes sizes behind the data when it cannot seek.
    class Pipe(io.RawIOBase):
        def __init__(self, path):
            self.f = open(path, "wb")

        def writable(self):
            return True

        def write(self, b):
            return self.f.write(b)

    with zipfile.ZipFile(Pipe("npz/refused_pipe.npz"), "w") as z:
        z.writestr(fixed("a.npy"), npy_bytes(counted((2, 3), "f4")))
    for name, method in [("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)]:
        with zipfile.ZipFile(f"npz/refused_{name}.npz", "w") as z:
            z.writestr(fixed("a.npy"), npy_bytes(counted((2, 3), "f4")), method)

    names = {"f2": "F16", "f4": "F32", "f8": "F64", "b1": "BOOL"}
    arrays = {names.get(d, d.upper().replace("1", "8").replace("2", "16").replace("4", "32")
                        if d not in ("u8", "i8") else d[0].upper() + "64"): counted((2, 3), d)
              for d in TYPES}
    save_file(arrays, "safetensors/types.safetensors")
    save_file({"scalar": counted((), "f4"), "none": counted((0, 4), "f4"),
               "rank 8": counted(SHAPE, "f4"), "\u540d": counted((3,), "u1")},
              "safetensors/shapes.safetensors", metadata={"note": "line\nbreak, \u540d"})


main()
