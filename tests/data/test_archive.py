from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from singleshot.data.fetching.archive import extract

FILES = {"set/a.bin": b"a" * 1000, "set/inner/b.txt": b"b", "set/empty": b"", "set/ä ö.txt": b"umlauts"}
KINDS = ["tar.gz", "zip"]
MAX_BYTES = 1_000_000


def tar_member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(*members: tuple[zipfile.ZipInfo | str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for info, content in members:
            archive.writestr(info, content)
    return buffer.getvalue()


def packed(kind: str, files: dict[str, bytes] = FILES) -> bytes:
    if kind == "zip":
        return zip_of(("set/", b""), *files.items())
    folder = tar_member("set", type=tarfile.DIRTYPE)
    content = tar_of(folder, *(tar_member(name, content) for name, content in files.items()))
    return gzip.compress(content)


def below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refuse(content: bytes, tmp_path: Path, message: str) -> None:
    archive, into = tmp_path / "the.archive", tmp_path / "data" / "root"
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        extract(archive, into, max_bytes=MAX_BYTES)
    assert str(archive) in str(raised.value)
    assert below(tmp_path) == {"the.archive": content}
    assert list(into.iterdir()) == []


def test_files_and_folders_are_extracted(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for kind in KINDS:
        archive.write_bytes(packed(kind))
        into = tmp_path / kind / "root"
        extract(archive, into, max_bytes=MAX_BYTES)
        assert below(into) == FILES
        with pytest.raises(ValueError, match="set already exists"):
            extract(archive, into, max_bytes=MAX_BYTES)
        assert below(into) == FILES
        assert [path.name for path in into.iterdir()] == ["set"]


def test_modes_and_owners_are_ignored(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(gzip.compress(tar_of(tar_member("set/run", b"#!", mode=0o6777, uid=0, gid=0))))
    extract(archive, tmp_path, max_bytes=MAX_BYTES)
    assert not stat.S_IMODE((tmp_path / "set" / "run").stat().st_mode) & 0o6111


OUTWARD_LINK = tar_member("set/link", type=tarfile.SYMTYPE, linkname="../../outside")


def test_unsafe_tar_members_are_refused(tmp_path: Path) -> None:
    for members, message in [
        ([tar_member("../evil", b"x")], r"'\.\./evil': its path leads out of the folder"),
        ([tar_member("set/../../evil", b"x")], "leads out"),
        ([tar_member("set/..", type=tarfile.DIRTYPE)], "leads out"),
        ([tar_member("..\\evil", b"x")], "leads out"),
        ([tar_member("/tmp/evil", b"x")], "'/tmp/evil': its path is absolute"),
        ([tar_member("C:\\evil", b"x")], "absolute"),
        ([tar_member("C:evil", b"x")], "absolute"),
        ([tar_member("\\evil", b"x")], "absolute"),
        ([tar_member("set/e\nvil", b"x")], "unprintable"),
        ([tar_member("set/" + "e" * 200, b"x")], "too long"),
        ([OUTWARD_LINK, tar_member("set/link/evil", b"x")], "'set/link': it is a link"),
        ([tar_member("set/link", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "'set/link': it is a link"),
        ([tar_member("set/hard", type=tarfile.LNKTYPE, linkname="../../etc/passwd")], "'set/hard': it is a link"),
        ([tar_member("set/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "'set/null': .*a device"),
        ([tar_member("set/sda", type=tarfile.BLKTYPE)], "a device"),
        ([tar_member("set/pipe", type=tarfile.FIFOTYPE)], "special file"),
        ([tar_member("set/a", b"1"), tar_member("set/a", b"2")], "'set/a': it is a duplicate"),
        ([tar_member("set/a", b"1"), tar_member("set/a/b", b"2")], "'set/a/b': it is a duplicate or inside a file"),
        ([tar_member("", b"x")], "''"),
    ]:
        fine = tar_member("set/fine", b"fine")
        refuse(gzip.compress(tar_of(fine, *members)), tmp_path, f"refused to extract .*{message}")


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("set/link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_unsafe_zip_members_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[zipfile.ZipInfo | str, str]] = [
        ("../evil", "leads out"),
        ("set/../../evil", "leads out"),
        ("/tmp/evil", "absolute"),
        ("C:/evil", "absolute"),
        ("..\\evil", "leads out"),
        (zip_link(), "neither a file nor a folder"),
        ("set/fine", "a duplicate"),
    ]
    for member, message in cases:
        refuse(zip_of(("set/fine", b"fine"), (member, b"../../etc/passwd")), tmp_path, message)
    encrypted = bytearray(zip_of(("set/a", b"secret")))
    encrypted[encrypted.rindex(b"PK\x01\x02") + 8] |= 1
    refuse(bytes(encrypted), tmp_path, "'set/a': it is encrypted")


@pytest.mark.parametrize("kind", KINDS)
def test_limits(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = packed(kind, {"set/a": b"a" * 600, "set/bomb": bytes(2_000_000)})
    refuse(bomb, tmp_path, r"'set/bomb': the archive contains more than 1,000,000 bytes")
    monkeypatch.setattr("singleshot.data.fetching.archive.MAX_MEMBERS", 20)
    many = packed(kind, {f"set/{number}": b"" for number in range(30)})
    refuse(many, tmp_path, "more than 20 members")


def test_oversized_header_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2**32  # claims a comment of 4 GB
    bomb = gzip.compress(header.tobuf() + bytes(5_000_000))
    refuse(bomb, tmp_path, "decompresses to many more bytes than expected")


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_and_corrupt_archives_are_refused(kind: str, tmp_path: Path) -> None:
    content = packed(kind, FILES | {"set/noise": os.urandom(3000)})
    for keep in (0, 1, 100, 512, 600, 2048, -1, -200):
        refuse(content[:keep], tmp_path, "damaged or truncated")
    for position in {"tar.gz": (-5, -1, 40), "zip": (70, -30)}[kind]:
        corrupt = bytearray(packed(kind, {"set/noise": os.urandom(3000)}))
        corrupt[position] ^= 0xFF
        refuse(bytes(corrupt), tmp_path, "damaged or truncated")
    refuse(b"<html>404</html>" * 100, tmp_path, "damaged or truncated")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1))
def test_random_damage_is_refused_or_harmless(kind: str, changes: list[tuple[float, int]], tmp_path: Path) -> None:
    content = bytearray(packed(kind))
    for where, value in changes:
        content[int(where * (len(content) - 1))] = value
    archive, into = tmp_path / "archive", tmp_path / "root"
    archive.write_bytes(bytes(content))
    is_refused = True
    with contextlib.suppress(ValueError):
        extract(archive, into, max_bytes=100_000)
        is_refused = False
    assert bool(list(into.iterdir())) != is_refused
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "root"}
    shutil.rmtree(into)
