"""Encoders: batches, the cache on disk, and models, with stand-ins for missing libraries."""

from __future__ import annotations

import enum
import importlib.util
import os
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import encoders
from fastmcmd.encoders.cache import digest_of


class CountingEncoder:
    """Function that counts its calls and records the sizes of its batches."""

    def __init__(self, function):
        self.function = function
        self.sizes = []

    def __call__(self, batch):
        self.sizes.append(len(batch))
        return self.function(batch)


def two_columns(batch):
    return np.stack([batch.sum(axis=1), batch.max(axis=1)], axis=1)


def test_batches_are_put_together(rng):
    x = rng.normal(size=(23, 5))
    function = CountingEncoder(two_columns)
    features = encoders.batched(function, batch_size=10)(x)
    assert function.sizes == [10, 10, 3]
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, two_columns(x).astype(np.float32))


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_the_batch_size_changes_nothing(batch_size, rng):
    x = rng.normal(size=(23, 5))
    np.testing.assert_array_equal(
        encoders.batched(two_columns, batch_size=batch_size)(x), encoders.batched(two_columns)(x)
    )


def test_lists_of_strings_and_columns_of_frames():
    pd = pytest.importorskip("pandas")

    def lengths(batch):
        assert isinstance(batch, list)
        return [len(text) for text in batch]

    words = ["a", "bb", "", "dddd"]
    for inputs in (words, tuple(words), np.array(words), pd.Series(words), iter(words)):
        features = encoders.batched(lengths, batch_size=3)(inputs)
        np.testing.assert_array_equal(features, [[1], [2], [0], [4]])


def test_tensors_are_sliced_and_keep_no_graph(rng):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 3)
    batches = []

    def encode(batch):
        out = model(batch)
        batches.append(out.requires_grad)
        return out

    x = torch.tensor(rng.normal(size=(11, 4)), dtype=torch.float32)
    features = encoders.batched(encode, batch_size=4)(x)
    assert batches == [False] * 3
    np.testing.assert_allclose(features, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    half = encoders.batched(lambda batch: model(batch).bfloat16())(x)
    np.testing.assert_array_equal(half, model(x).detach().bfloat16().float().numpy())


def test_as_an_encoder_of_cce(rng):
    x = rng.normal(size=(60, 2, 3))
    y = x.sum(axis=(1, 2)) + rng.normal(size=60)
    prediction = fm.Gaussian(y * 0, 1.0)
    flat = x.reshape(60, 6).astype(np.float32)
    result = fm.cce(x, y, prediction, encoder=encoders.batched(lambda b: b.reshape(len(b), -1)))
    np.testing.assert_allclose(result.values, fm.cce(flat, y, prediction).values, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda b: np.ones((len(b) + 1, 2)), r"shape \(6, 2\) for 5 inputs"),
        (lambda b: np.ones((len(b), 2, 2)), r"shape \(5, 2, 2\)"),
        (lambda b: np.ones((len(b), 0)), r"shape \(5, 0\)"),
        (lambda b: np.where(np.arange(len(b)) == 3, np.nan, 1.0), "input 3"),
        (lambda b: np.full(len(b), 1e300), "infinity in float32"),
        (lambda b: np.ones((len(b), int(b[0, 0]) + 1)), "columns for the batch from row 5"),
        (lambda b: None, "what the encoder returned is None"),
    ],
)
def test_what_an_encoder_returns_is_checked(function, match):
    x = np.repeat(np.arange(2.0), 5)[:, None]
    with pytest.raises((TypeError, ValueError), match=match):
        encoders.batched(function, batch_size=5)(x)


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ("a text", "inputs is a str"),
        (Path("a.png"), "inputs is a .*Path"),
        ({"a": 1}, "inputs is a dict"),
        ([], "inputs is empty"),
        (np.ones((0, 3)), "inputs is empty"),
        (np.float64(3.0), "no dimension"),
        (3, "inputs is a int"),
    ],
)
def test_bad_inputs_are_named(inputs, match):
    with pytest.raises((TypeError, ValueError), match=match):
        encoders.batched(two_columns)(inputs)


def test_bad_options_are_named(tmp_path):
    with pytest.raises(TypeError, match="function is 3"):
        encoders.batched(3)
    with pytest.raises(ValueError, match="batch_size is 0"):
        encoders.batched(two_columns, batch_size=0)
    with pytest.raises(ValueError, match="name is needed with cache_dir"):
        encoders.batched(two_columns, cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="cache_dir"):
        encoders.batched(two_columns, cache_dir=tmp_path / "none", name="m")


def test_progress_is_reported(capsys, rng):
    encoders.batched(two_columns, batch_size=5, progress=True)(rng.normal(size=(20, 3)))
    assert "20 of 20 rows" in capsys.readouterr().err
    encoders.batched(two_columns, batch_size=5)(rng.normal(size=(20, 3)))
    assert capsys.readouterr().err == ""


# ---- the cache ----


def test_a_second_call_reads_the_first(tmp_path, rng):
    x = rng.normal(size=(30, 4))
    function = CountingEncoder(two_columns)
    first = encoders.batched(function, cache_dir=tmp_path, name="sums v1")(x)
    assert len(function.sizes) == 1
    again = encoders.batched(function, batch_size=3, cache_dir=tmp_path, name="sums v1")(x.copy())
    assert len(function.sizes) == 1
    np.testing.assert_array_equal(first, again)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("sums-v1-")
    np.testing.assert_array_equal(np.load(file, allow_pickle=False), first)
    encoders.batched(function, cache_dir=tmp_path, name="sums v2")(x)
    assert len(function.sizes) == 2
    x[29, 3] += 1e-12
    encoders.batched(function, cache_dir=tmp_path, name="sums v1")(x)
    assert len(function.sizes) == 3


def test_contents_have_different_keys(tmp_path, rng):
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    x = rng.normal(size=(4, 6))
    pixels = rng.integers(0, 256, size=(5, 4, 3), dtype=np.uint8)
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "two").write_bytes(b"2")
    different = [
        x,
        x.astype(np.float32),
        x.reshape(6, 4),
        list(x),
        x[::-1],
        torch.tensor(x),
        torch.tensor(x, dtype=torch.float16),
        torch.ones(4, 6),
        torch.ones(4, 6, dtype=torch.bfloat16),
        ["ab", "c"],
        ["a", "bc"],
        ["abc"],
        [["ab"], "c"],
        [b"ab", b"c"],
        [1, 2],
        [1.0, 2.0],
        [True, None],
        [image.fromarray(pixels)],
        [image.fromarray(pixels.transpose(1, 0, 2).copy())],
        [image.fromarray(pixels).convert("L")],
        [pixels],
        [tmp_path / "one"],
        [tmp_path / "two"],
        [str(tmp_path / "one")],
    ]
    digests = [digest_of("m", items) for items in different]
    assert len(set(digests)) == len(digests)
    assert digest_of("m", x) == digest_of("m", np.asfortranarray(x))
    (tmp_path / "copy").write_bytes(b"1")
    assert digest_of("m", [tmp_path / "copy"]) == digest_of("m", [tmp_path / "one"])
    assert digest_of("m2", x) != digest_of("m", x)
    with pytest.raises(TypeError, match="input 1 is a set"):
        digest_of("m", ["a", {1}])
    with pytest.raises(FileNotFoundError, match="none"):
        digest_of("m", [tmp_path / "none"])
    if os.name == "posix":
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match=r"an input is .*a FIFO"):
            digest_of("m", [tmp_path / "pipe"])


def test_large_arrays_are_hashed_in_blocks():
    """The digest covers all bytes in order, wherever blocks end."""
    import hashlib

    x = np.arange(3 * 1_500_000, dtype=np.float64).reshape(-1, 3)
    kind = f"{x.dtype.str}{x.shape}".encode()
    hasher = hashlib.sha256(b"fastmcmd encoders 1" + b"name:1:m")
    hasher.update(f"array:{len(kind)}:".encode() + kind + x.tobytes())
    assert digest_of("m", x) == hasher.hexdigest()


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
def test_a_broken_file_is_reported_and_replaced(content, tmp_path, rng):
    x = rng.normal(size=(6, 4))
    encoder = encoders.batched(two_columns, cache_dir=tmp_path, name="m")
    expected = encoder(x)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="encoded again"):
        np.testing.assert_array_equal(encoder(x), expected)
    np.testing.assert_array_equal(np.load(file), expected)


def test_no_pickle_is_loaded(tmp_path, rng):
    x = rng.normal(size=(6, 4))
    encoder = encoders.batched(two_columns, cache_dir=tmp_path, name="m")
    expected = encoder(x)
    (file,) = tmp_path.iterdir()
    np.save(file, np.array([{"a": 1}] * 6, dtype=object), allow_pickle=True)
    with pytest.warns(UserWarning, match="encoded again"):
        np.testing.assert_array_equal(encoder(x), expected)
    np.save(file, np.ones((5, 2), dtype=np.float32))
    with pytest.warns(UserWarning, match="another content"):
        np.testing.assert_array_equal(encoder(x), expected)


def test_a_flipped_byte_is_never_returned(tmp_path, rng):
    x = rng.normal(size=(6, 4))
    encoder = encoders.batched(two_columns, cache_dir=tmp_path, name="m")
    expected = encoder(x)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for place in range(0, len(content), 5):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            np.testing.assert_array_equal(encoder(x), expected)


def test_nothing_is_left_by_an_encoder_that_fails(tmp_path, monkeypatch, rng):
    def fails(batch):
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        encoders.batched(fails, cache_dir=tmp_path, name="m")(rng.normal(size=(6, 4)))
    assert not list(tmp_path.iterdir())

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fastmcmd.io.atomic.os.replace", stops)
    with pytest.raises(KeyboardInterrupt):
        encoders.batched(two_columns, cache_dir=tmp_path, name="m")(rng.normal(size=(6, 4)))
    assert not list(tmp_path.iterdir())


# ---- models ----


def images(rng, count=5):
    return rng.integers(0, 256, size=(count, 8, 6, 3), dtype=np.uint8)


@pytest.fixture
def open_clip(monkeypatch):
    """Stand-in with the calls of open_clip: images become mean colours, texts letter counts."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def encode_image(self, image, normalize=False):
            assert not self.training
            assert not torch.is_grad_enabled()
            features = image.mean(dim=(2, 3))
            return torch.nn.functional.normalize(features, dim=-1) if normalize else features

        def encode_text(self, text, normalize=False):
            assert text.dtype == torch.long
            features = text.float()
            return torch.nn.functional.normalize(features, dim=-1) if normalize else features

    def preprocess(image):
        assert image.mode == "RGB"
        return torch.tensor(np.asarray(image)).permute(2, 0, 1).float() / 255

    def get_tokenizer(model_name):
        assert model_name == "ViT-B-32"

        def tokenizer(texts, context_length=None):
            assert isinstance(texts, list)
            return torch.tensor([[text.count("a"), text.count("b"), 1] for text in texts])

        return tokenizer

    def create_model_and_transforms(
        model_name, pretrained=None, precision="fp32", device="cpu", **options
    ):
        module.loads.append((model_name, pretrained, str(device)))
        return Model().to(device).train(), None, preprocess

    module = types.ModuleType("open_clip")
    module.loads = []
    module.create_model_and_transforms = create_model_and_transforms
    module.get_tokenizer = get_tokenizer
    monkeypatch.setitem(sys.modules, "open_clip", module)
    return module


def test_open_clip_of_images(open_clip, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    arrays = images(rng)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path, pixels in zip(paths, arrays, strict=True):
        image.fromarray(pixels).save(path)
    means = arrays.mean(axis=(1, 2)) / 255
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    encoder = encoders.OpenCLIP(device="cpu", batch_size=2)
    assert open_clip.loads == []  # until it is called
    import torch

    pixel_tensor = torch.tensor(arrays).permute(0, 3, 1, 2).float() / 255
    forms = (paths, [str(p) for p in paths], [image.open(p) for p in paths], arrays, pixel_tensor)
    for inputs in forms:
        np.testing.assert_allclose(encoder(inputs), expected, rtol=1e-5)
    assert open_clip.loads == [("ViT-B-32", "laion2b_s34b_b79k", "cpu")]
    plain = encoders.OpenCLIP(device="cpu", normalize=False)
    np.testing.assert_allclose(plain(arrays), means, rtol=1e-5)
    with pytest.raises(FileNotFoundError, match="a photo of a cat"):
        encoder(["a photo of a cat"])
    with pytest.raises(ValueError, match="uint8"):
        encoder([arrays[0] / 255])


def test_open_clip_of_texts(open_clip):
    encoder = encoders.OpenCLIP(device="cpu", modality="text", normalize=False, batch_size=2)
    features = encoder(["aab", "b", ""])
    np.testing.assert_array_equal(features, [[2, 1, 1], [0, 1, 1], [0, 0, 1]])
    with pytest.raises(TypeError, match="inputs hold a int"):
        encoder(["a", 3])
    with pytest.raises(ValueError, match="modality is 'sound'"):
        encoders.OpenCLIP(modality="sound")


def test_open_clip_on_disk(open_clip, tmp_path, rng):
    """The key of a path is the file's contents; that of modalities and weights is the name."""
    image = pytest.importorskip("PIL.Image")
    cache = tmp_path / "cache"
    cache.mkdir()
    path = tmp_path / "image.png"
    image.fromarray(images(rng)[0]).save(path)
    encoder = encoders.OpenCLIP(device="cpu", cache_dir=cache)
    first = encoder([str(path)])
    again = encoders.OpenCLIP(device="cpu", cache_dir=cache)
    np.testing.assert_array_equal(again([path]), first)
    assert len(open_clip.loads) == 1  # reads from disk without a model
    image.fromarray(images(rng)[1]).save(path)
    assert not np.array_equal(again([path]), first)
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"one")
    names = {encoder.name, encoders.OpenCLIP(modality="text").name}
    names.add(encoders.OpenCLIP(pretrained=str(weights)).name)
    weights.write_bytes(b"two")
    names.add(encoders.OpenCLIP(pretrained=str(weights)).name)
    assert len(names) == 4
    with pytest.raises(ValueError, match="random weights"):
        encoders.OpenCLIP(pretrained=None, cache_dir=cache)


def test_sentences(monkeypatch, tmp_path):
    """Stand-in with the call of sentence-transformers."""
    pytest.importorskip("torch")
    calls = []

    class SentenceTransformer:
        def __init__(self, model_name_or_path=None, modules=None, device=None):
            calls.append((model_name_or_path, device))

        def encode(
            self,
            sentences,
            prompt_name=None,
            prompt=None,
            batch_size=32,
            show_progress_bar=None,
            output_value="sentence_embedding",
            precision="float32",
            convert_to_numpy=True,
            convert_to_tensor=False,
            device=None,
            normalize_embeddings=False,
        ):
            assert isinstance(sentences, list)
            assert len(sentences) == batch_size
            assert convert_to_numpy
            assert show_progress_bar is False
            rows = np.array([[len(s), 1.0] for s in sentences], dtype=np.float32)
            scale = np.linalg.norm(rows, axis=1, keepdims=True) if normalize_embeddings else 1
            return rows / scale

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    encoder = encoders.SentenceTransformer("tiny", device="cpu", batch_size=2, cache_dir=tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(encoder(["a", "bb", "ccc"]), [[1, 1], [2, 1], [3, 1]])
    assert calls == [("tiny", "cpu")]
    unit = encoders.SentenceTransformer("tiny", device="cpu", normalize=True, cache_dir=tmp_path)
    np.testing.assert_allclose(np.linalg.norm(unit(["a", "bb", "ccc"]), axis=1), 1, rtol=1e-6)
    with pytest.raises(TypeError, match="inputs hold a float"):
        encoder(["a", 1.0])


@pytest.fixture
def torchvision(monkeypatch):
    """Stand-in with the calls of torchvision.models."""
    torch = pytest.importorskip("torch")

    class Classifier(torch.nn.Module):
        def __init__(self, classes=10):
            super().__init__()
            self.attention = torch.nn.Linear(3, 3)  # a linear layer that is not the last
            torch.nn.init.eye_(self.attention.weight)
            torch.nn.init.zeros_(self.attention.bias)
            self.heads = torch.nn.Sequential()
            self.heads.head = torch.nn.Linear(3, classes)

        def forward(self, x):
            assert not self.training
            return self.heads(self.attention(x.mean(dim=(2, 3))))

    def preset(image):
        if not isinstance(image, torch.Tensor):
            image = torch.tensor(np.asarray(image)).permute(2, 0, 1)
        return image.float() / 255 if image.dtype == torch.uint8 else image

    class Weights(enum.Enum):
        V1 = "v1"
        V2 = "v2"
        DEFAULT = "v2"

        def transforms(self):
            return preset

    def get_model(name, **config):
        models.loads.append((name, config["weights"]))
        return torch.nn.Conv2d(3, 3, 1) if name == "convolutions" else Classifier()

    package, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")
    models.loads = []
    models.get_model = get_model
    models.get_model_weights = lambda name: Weights
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return models


def test_torchvision(torchvision, rng):
    import torch

    arrays = images(rng)
    expected = arrays.mean(axis=(1, 2)) / 255
    encoder = encoders.Torchvision("tiny", device="cpu", batch_size=3)
    np.testing.assert_allclose(encoder(arrays), expected, rtol=1e-5)
    tensor = torch.tensor(arrays).permute(0, 3, 1, 2)
    np.testing.assert_allclose(encoder(tensor), expected, rtol=1e-5)
    encoders.Torchvision("tiny", None, device="cpu")(arrays)
    encoders.Torchvision("tiny", "V1", device="cpu")(arrays)
    loads = [
        (name, None if weights is None else weights.name) for name, weights in torchvision.loads
    ]
    assert loads == [("tiny", "V2"), ("tiny", None), ("tiny", "V1")]
    with pytest.raises(ValueError, match=r"weights is 'V7'.*'V1', 'V2'"):
        encoders.Torchvision("tiny", "V7", device="cpu")(arrays)
    with pytest.raises(ValueError, match="no linear layer"):
        encoders.Torchvision("convolutions", device="cpu")(arrays)


@pytest.mark.parametrize(
    ("encoder", "module", "message"),
    [
        (encoders.OpenCLIP, "open_clip", r"pip install open_clip_torch.*fastmcmd\[open-clip\]"),
        (
            encoders.SentenceTransformer,
            "sentence_transformers",
            r"pip install sentence-transformers.*fastmcmd\[text\]",
        ),
        (
            encoders.Torchvision,
            "torchvision.models",
            r"pip install torchvision.*fastmcmd\[vision\]",
        ),
    ],
)
def test_a_missing_package_is_named_when_it_is_needed(encoder, module, message, monkeypatch, rng):
    instance = encoder()
    inputs = ["a text"] if module == "sentence_transformers" else images(rng)
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(fm.MissingDependencyError, match=message):
        instance(inputs)


def test_real_torchvision(rng):
    """Random weights, without a download, give as many columns as the last layer takes."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    for name, columns in (("resnet18", 512), ("mobilenet_v3_small", 1024)):
        features = encoders.Torchvision(name, None, device="cpu")(images(rng, 2))
        assert features.shape == (2, columns)


def test_real_open_clip(rng):
    """Use random weights, without a download."""
    if importlib.util.find_spec("open_clip") is None:
        pytest.skip("open_clip is not installed")
    features = encoders.OpenCLIP(pretrained=None, device="cpu")(images(rng, 2))
    assert features.shape == (2, 512)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: encoders.OpenCLIP(model=3), "model is a int"),
        (lambda: encoders.OpenCLIP(pretrained=b"x"), "pretrained is a bytes; text or None"),
        (lambda: encoders.OpenCLIP(normalize=np.ones(2)), "normalize is"),
        (lambda: encoders.SentenceTransformer(name=None), "name is a NoneType"),
        (lambda: encoders.Torchvision(weights=np.ones(2)), "weights is a ndarray"),
        (lambda: encoders.Torchvision(progress=[]), "progress is"),
        (lambda: encoders.batched(len, progress="no"), "progress is"),
    ],
)
def test_names_and_flags_are_checked_when_an_encoder_is_made(make, match):
    with pytest.raises(TypeError, match=match):
        make()
