"""Ways to damage the contents of a file: flipped, cut, spliced, forged under a right checksum."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import numpy as np

__all__ = ["DAMAGES", "damage_file"]

N = 40  # rows of the files that are damaged


def _flip(content, rng):
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _truncate(content, rng):
    return content[: rng.integers(len(content))]


def _drop(content, rng):
    start = rng.integers(len(content))
    return content[:start] + content[start + rng.integers(1, 64) :]


def _insert(content, rng):
    start = rng.integers(len(content))
    return content[:start] + rng.bytes(int(rng.integers(1, 64))) + content[start:]


def _overwrite(content, rng):
    start, kind = rng.integers(len(content)), rng.integers(4)
    count = int(rng.integers(1, 16))
    put = [bytes(count), b"\xff" * count, rng.bytes(count), b"\x7f" + b"\xff" * 7][kind]
    return content[:start] + put + content[start + len(put) :]


def _splice(content, rng):
    start, stop, at = (int(rng.integers(len(content))) for _ in range(3))
    return content[:at] + content[min(start, stop) : max(start, stop)] + content[at:]


def _text(content, rng):
    """Put something that a reader of texts or of JSON may stumble over where a number or a word is."""
    odd = [b",", b'"', b"\n", b"\r", b"\0", b"NA", b"nan", b"inf", b"1e999", b"-", b"[[", b"{", b"9" * 30,
           b"1_0", b"\xff", b"\xef\xbb\xbf", b"true", b"null", b"-1", b"1,234"]  # fmt: skip
    start = rng.integers(len(content))
    return content[:start] + odd[rng.integers(len(odd))] + content[start + rng.integers(0, 6) :]


def _member(content, rng):
    """Exchange the array of a member, with right checksums, or invent, double or rename members."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    at, kind = int(rng.integers(len(members))), rng.integers(6)
    name, inside = members[at]
    if kind == 0:
        members[at] = (name, _array(rng))
    elif kind == 1:
        members[at] = (name, _overwrite(inside, rng))
    elif kind == 2:
        members[at] = (
            str(rng.choice(["file.npy", "../up.npy", "x", "settings.npy", "é.npy"])),
            inside,
        )
    elif kind == 3:
        members.append((name, inside))
    elif kind == 4:
        del members[at]
    else:
        other = int(rng.integers(len(members)))
        members[at], members[other] = (name, members[other][1]), (members[other][0], inside)
    stream = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if rng.random() < 0.3 else zipfile.ZIP_STORED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(stream, "w", how) as file:
            for name, inside in members:
                file.writestr(name, inside)
    return stream.getvalue()


def _array(rng):
    dtype = rng.choice(
        ["f8", "f4", "i8", "i4", "?", "c16", "U3", "S2", "M8[s]", "V4", "f2", "O", ">f8"]
    )
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, N, 81], size=rng.integers(0, 4)))
    array = np.zeros(shape, dtype)
    if array.dtype.kind in "fi" and array.size:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice([-1, 7, 10**4, 1])
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def _forge(content, rng):
    """Exchange an array or a setting of a saved object or checkpoint, under a right checksum."""
    from fastmcmd.storage import _checksum

    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if "about.npy" in file.namelist():
            return _forge_checkpoint(file, rng)
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    arrays.pop("checksum")
    text = arrays.pop("settings").tobytes()
    name = str(rng.choice(sorted(arrays))) if arrays else ""
    if name and rng.random() < 0.6:
        arrays[name] = _forged(arrays[name], rng)
    else:
        text = _text_value(text, rng)
    sealed = {**arrays, "settings": np.frombuffer(text, np.uint8)}
    sealed["checksum"] = np.frombuffer(_checksum(arrays, text), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **sealed)
    return stream.getvalue()


def _forge_checkpoint(file, rng):
    """Exchange an array, a setting or two members of the stages, and list what is there then."""
    from fastmcmd.checkpoint import _members

    members = {name: file.read(name) for name in file.namelist()}
    about = json.loads(_from_npy(members.pop("about.npy")).tobytes())
    names = sorted(members)
    name = names[rng.integers(len(names))]
    array = _from_npy(members[name])
    if rng.random() < 0.2:
        other = names[rng.integers(len(names))]
        members[name], members[other] = members[other], members[name]
    elif name.endswith("/_document.npy"):
        members[name] = _to_npy(np.frombuffer(_text_value(array.tobytes(), rng), np.uint8))
    elif rng.random() < 0.1:
        del members[name]
    else:
        members[name] = _to_npy(_forged(array, rng))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        for name, inside in members.items():
            out.writestr(name, inside)
        about["members"] = _members(out)
        out.writestr("about.npy", _to_npy(np.frombuffer(json.dumps(about).encode(), np.uint8)))
    return stream.getvalue()


def _from_npy(content):
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def _to_npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _forged(array, rng):
    """Return an array like another one: of another shape, type, order, scale, or with odd values."""
    kind, out = rng.integers(11), np.array(array)
    if kind == 0:
        return out[: rng.integers(len(out) + 1)] if out.ndim else out[None]
    if kind == 1:
        return out.astype(rng.choice(["f4", "i8", "c16", "U8", "?", "u1"]))
    if kind == 2:
        return out.T[..., ::-1].copy()
    if kind == 3:
        return np.concatenate([out, out]) if out.ndim else out.reshape(1, 1)
    if kind == 4 and out.ndim:
        return out[::-1].copy()
    if kind == 5 and out.ndim:
        return out[..., ::-1].copy()  # ends of panels in the wrong order
    if kind == 6 and len(np.atleast_1d(out)) > 1:
        out[1:] = out[:-1].copy()  # rows that repeat or overlap others
        return out
    if kind == 7 and out.dtype.kind == "f":
        return out * rng.choice([0.0, -1.0, 1e300, 1e-300])
    if out.size:
        odd = [np.nan, np.inf, -1.0, 1e300, 0.0] if out.dtype.kind == "f" else [-1, 2**31, 10**6, 0]
        out.reshape(-1)[rng.integers(out.size)] = rng.choice(odd)
    return out


def _text_value(text, rng):
    """Exchange one value of JSON text."""
    content = json.loads(text)
    places = list(_places(content))
    holder, key = places[rng.integers(len(places))]
    odd = [None, True, -1, 0, 1.5, 10**12, 10**400, float("nan"), "x", [], {}, [[1]], 2**40]
    holder[key] = odd[rng.integers(len(odd))]
    return json.dumps(content).encode()


def _places(content):
    keys = content.keys() if isinstance(content, dict) else range(len(content))
    for key in list(keys):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from _places(content[key])


DAMAGES = (_forge, _flip, _truncate, _drop, _insert, _overwrite, _splice, _text, _member)


def damage_file(path, rng, only=None):
    """Damage a file, or one of a folder, in one way if ``only`` is given."""
    if path.is_dir():
        inner = sorted(file for file in path.rglob("*") if file.is_file())
        path = inner[rng.integers(len(inner))]
        if rng.random() < 0.05:
            path.unlink()
            return "unlink"
    content = path.read_bytes()
    damages = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        how = only or DAMAGES[rng.integers(len(DAMAGES))]
        if how in (_member, _forge) and not zipfile.is_zipfile(io.BytesIO(content)):
            how = _flip
        try:
            content = how(content, rng) or b"\0"
        except (
            KeyError,
            TypeError,
            OverflowError,
            zipfile.BadZipFile,
            ValueError,
            IndexError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ):
            how = _flip
            content = _flip(content, rng)
        damages.append(how.__name__)
    path.write_bytes(content)
    return " ".join(damages)
