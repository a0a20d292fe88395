from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from singleshot.data.decoding import UnreadableImageError, channel_statistics, decode_image, resize_images

ORANGE = (250, 130, 10)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "P", "RGBA", "L", "LA", "1"])
def test_formats_and_modes(tmp_path: Path, mode: str) -> None:
    formats = {"RGB": ["PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG"], "CMYK": ["JPEG", "TIFF"]}
    formats["L"] = ["PNG", "JPEG"]
    expected = {"L": (152, 152, 152), "LA": (152, 152, 152), "1": (255, 255, 255)}.get(mode, ORANGE)
    image = Image.new("RGB", (20, 20), "white" if mode == "1" else ORANGE)
    path = tmp_path / "image"  # the extension does not matter
    for kind in formats.get(mode, ["PNG"]):
        path.write_bytes(encoded(image.convert(mode), kind))
        pixels = decode_image(path, 8, 3)
        assert pixels.shape == (3, 8, 8)
        assert pixels.dtype == np.uint8
        np.testing.assert_allclose(pixels.mean((1, 2)), expected, atol=9)
        gray = decode_image(path, 8, 1)
        assert gray.shape == (1, 8, 8)
        np.testing.assert_allclose(gray.mean(), np.dot(expected, (0.299, 0.587, 0.114)), atol=4)


def test_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    levels = np.array([[0, 256], [32768, 65535]], np.uint16)
    for kind in ("PNG", "TIFF", "PPM"):
        path = tmp_path / f"image.{kind}"
        Image.fromarray(levels).save(path, kind)
        assert decode_image(path, 2, 1).tolist() == [[[0, 1], [128, 255]]]


def test_transparent_pixels_are_white(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.new("RGBA", (4, 4), (*ORANGE, 0)).save(path)
    assert (decode_image(path, 4, 3) == 255).all()


def test_central_square_is_cropped(tmp_path: Path) -> None:
    """Of red, green and blue stripes, only green is left."""
    stripes = np.zeros((10, 30, 3), np.uint8)
    for number in range(3):
        stripes[:, number * 10 : number * 10 + 10, number] = 200
    for turned in (stripes, stripes.transpose(1, 0, 2)):
        path = tmp_path / "image.png"
        Image.fromarray(np.ascontiguousarray(turned)).save(path)
        assert decode_image(path, 10, 3).mean((1, 2)).tolist() == [0, 200, 0]


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    upright = np.zeros((16, 16, 3), np.uint8)
    upright[:8] = 255  # top half bright
    lying = Image.fromarray(np.ascontiguousarray(np.rot90(upright)))
    exif = lying.getexif()
    exif[0x0112] = 6  # turn a quarter clockwise to show it
    path = tmp_path / "image.jpg"
    lying.save(path, quality=100, exif=exif)
    pixels = decode_image(path, 16, 3)
    assert pixels[:, :7].min() > 200
    assert pixels[:, 9:].max() < 50


def test_large_jpeg_decoded_at_a_fraction(tmp_path: Path) -> None:
    rows, columns = np.mgrid[:640, :640] / 640
    smooth = np.stack([rows, columns, 1 - rows], -1) * 255
    path = tmp_path / "image.jpg"
    Image.fromarray(smooth.astype(np.uint8)).save(path, quality=95)
    with Image.open(path) as whole:
        expected = np.asarray(whole.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    np.testing.assert_allclose(decode_image(path, 32, 3).astype(int), expected.astype(int), atol=3)


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))


def test_unreadable_images(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    for content, message in [
        (b"", "is not an image in a supported format"),
        (b"plain text", "is not an image in a supported format"),
        (encoded(NOISE, "PNG")[:2000], "truncated|damaged|broken"),
        (encoded(NOISE, "JPEG")[:1000], "cannot be read: image file is truncated"),
        (encoded(NOISE, "EPS"), "is not an image in a supported format"),  # would start another program
        (encoded(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"), "32-bit pixels"),
        (b"P6 20000 20000 255\n", "has more than 89,478,485 pixels"),
        (b"P6 10000 10000 255\n", "has more than 89,478,485 pixels"),  # Pillow only warns
    ]:
        path.write_bytes(content)
        with pytest.raises(UnreadableImageError, match=message) as caught:
            decode_image(path, 8, 3)
        assert str(path) in str(caught.value)


def test_paths_that_are_not_regular_files(tmp_path: Path) -> None:
    loop = tmp_path / "loop.png"
    loop.symlink_to(loop)
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)  # opening it would block
    for path in (tmp_path / "absent.png", tmp_path, loop, pipe):
        with pytest.raises(ValueError, match=f"{path} cannot be read: ") as caught:
            decode_image(path, 8, 3)
        assert os.strerror(0) not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_damage(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
    content = bytearray(encoded(NOISE.resize((9, 7)), kind))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("image") / "image"
    path.write_bytes(content)
    reason = ""
    try:
        assert decode_image(path, 4, 3).shape == (3, 4, 4)
    except UnreadableImageError as error:
        reason = str(error)
    assert not reason or str(path) in reason


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.uint8, st.tuples(st.integers(0, 3), st.sampled_from([1, 3]), st.just(8), st.just(8))), st.integers(1, 20)
)
def test_resize_shape_and_constant_images(images: np.ndarray[Any, Any], size: int) -> None:
    assert resize_images(images, 8) is images
    assert resize_images(images, size).shape == (*images.shape[:2], size, size)
    flat = np.full_like(images, 93)
    assert (resize_images(flat, size) == 93).all()


def test_downscaling_averages() -> None:
    checkerboard = (np.indices((32, 32)).sum(0) % 2 * 255).astype(np.uint8)[None, None]
    assert np.abs(resize_images(checkerboard, 8).astype(int)[..., 1:-1, 1:-1] - 127).max() <= 2


@settings(max_examples=50, deadline=None)
@given(
    arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))),
    st.integers(1, 6),
)
def test_channel_statistics(images: np.ndarray[Any, Any], batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("singleshot.data.decoding.BATCH", batch)
        mean, std = channel_statistics(images)
    whole = images.astype(np.float64) / 255
    np.testing.assert_allclose(mean, whole.mean((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(std, np.maximum(whole.std((0, 2, 3)), 1 / 255), atol=1e-7)


def test_deviation_of_constant_images_is_positive() -> None:
    assert channel_statistics(np.full((2, 1, 3, 3), 7, np.uint8))[1] == pytest.approx([1 / 255])
