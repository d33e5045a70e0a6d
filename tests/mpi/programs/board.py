"""What Weft's NICs in this process have counted, read from the boards that they show it on (docs/stat.md)."""

import os
import struct

MAGIC = b"weftstat"
LAYOUT = 1
HEAD = struct.Struct("=8sIIQQIIIII")
LINE = 64


def counters(pid=None):
    """The counters of a process (this one by default), summed over its NICs and engines; None if no NIC of it shows a board."""
    directory = os.environ["WEFT_BOARDS"]
    prefix = f"{pid or os.getpid()}-"
    total = None
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if name.startswith(prefix):
            total = add(total or {}, os.path.join(directory, name))
    return total


def add(total, path):
    try:
        with open(path, "rb") as file:
            image = file.read()
    except FileNotFoundError:  # the NIC was closed meanwhile
        return total
    for name, value in decode(image):
        total[name] = total.get(name, 0) + value
    return total


def decode(image):
    magic, layout, _, _, _, engines, number, process, title, names = HEAD.unpack_from(image)
    if (magic, layout) != (MAGIC, LAYOUT):
        raise ValueError("this is no board, or one of another layout")
    text = HEAD.size + process + title
    names = image[text:text + names].decode().split("\n")
    row = up(number * 8)
    begin = up(text + len("\n".join(names)))
    for engine in range(engines):
        yield from zip(names, struct.unpack_from(f"={number}Q", image, begin + engine * row))


def up(offset):
    return -(-offset // LINE) * LINE
