from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from singleshot.data.published.archive import extract

FILES = {"set/a.bin": b"a" * 1000, "set/inner/b.txt": b"b", "set/empty": b"", "set/ä ö.txt": b"umlauts"}
KINDS = ["tar", "tar.gz", "zip"]


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
    return gzip.compress(content) if kind == "tar.gz" else content


def below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refuse(content: bytes, tmp_path: Path, message: str, **limits: int) -> None:
    archive, into = tmp_path / "the.archive", tmp_path / "data" / "root"
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        extract(archive, into, **limits)
    assert str(archive) in str(raised.value)
    assert below(tmp_path) == {"the.archive": content}
    assert list(into.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_folders_come_out_as_they_went_in(kind: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(packed(kind))
    into = tmp_path / "deep" / "root"
    assert extract(archive, into) == (into / "set",)
    assert below(into) == FILES
    with pytest.raises(ValueError, match="set is in the way"):
        extract(archive, into)
    assert below(into) == FILES
    assert [path.name for path in into.iterdir()] == ["set"]


def test_modes_and_owners_of_an_archive_mean_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(tar_of(tar_member("set/run", b"#!", mode=0o6777, uid=0, gid=0)))
    extract(archive, tmp_path)
    assert not stat.S_IMODE((tmp_path / "set" / "run").stat().st_mode) & 0o6111


OUTWARD_LINK = tar_member("set/link", type=tarfile.SYMTYPE, linkname="../../outside")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([tar_member("../evil", b"x")], r"'\.\./evil': its path leads out of the folder"),
        ([tar_member("set/../../evil", b"x")], "leads out"),
        ([tar_member("set/..", type=tarfile.DIRTYPE)], "leads out"),
        ([tar_member("..\\evil", b"x")], "leads out"),
        ([tar_member("/tmp/evil", b"x")], "'/tmp/evil': its path is absolute"),
        ([tar_member("C:\\evil", b"x")], "absolute"),
        ([tar_member("C:evil", b"x")], "absolute"),
        ([tar_member("\\evil", b"x")], "absolute"),
        ([tar_member("set/e\nvil", b"x")], "cannot be shown"),
        ([tar_member("set/" + "e" * 200, b"x")], "too long"),
        ([OUTWARD_LINK, tar_member("set/link/evil", b"x")], "'set/link': it is a link"),
        ([tar_member("set/link", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "'set/link': it is a link"),
        ([tar_member("set/hard", type=tarfile.LNKTYPE, linkname="../../etc/passwd")], "'set/hard': it is a link"),
        ([tar_member("set/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "'set/null': .*a device"),
        ([tar_member("set/sda", type=tarfile.BLKTYPE)], "a device"),
        ([tar_member("set/pipe", type=tarfile.FIFOTYPE)], "special file"),
        ([tar_member("set/a", b"1"), tar_member("set/a", b"2")], "'set/a': it is there twice"),
        ([tar_member("set/a", b"1"), tar_member("set/a/b", b"2")], "'set/a/b': it is there twice, or inside a file"),
        ([tar_member("", b"x")], "''"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_tar_members_that_belong_elsewhere_are_refused(
    members: list[tuple[tarfile.TarInfo, bytes]], message: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    fine = tar_member("set/fine", b"fine")
    refuse(pack(tar_of(fine, *members)), tmp_path, f"refused to unpack its member .*{message}")


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("set/link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("../evil", "leads out"),
        ("set/../../evil", "leads out"),
        ("/tmp/evil", "absolute"),
        ("C:/evil", "absolute"),
        ("..\\evil", "leads out"),
        (zip_link(), "neither a file nor a folder"),
        ("set/fine", "there twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_zip_members_that_belong_elsewhere_are_refused(
    member: zipfile.ZipInfo | str, message: str, tmp_path: Path
) -> None:
    refuse(zip_of(("set/fine", b"fine"), (member, b"../../etc/passwd")), tmp_path, message)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    content = bytearray(zip_of(("set/a", b"secret")))
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    refuse(bytes(content), tmp_path, "'set/a': it is encrypted")


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_allowed_is_refused_with_the_member_that_goes_too_far(kind: str, tmp_path: Path) -> None:
    bomb = packed(kind, {"set/a": b"a" * 600, "set/bomb": bytes(10_000_000)})
    refuse(bomb, tmp_path, r"'set/bomb': with it, the archive holds more than 1,000,000 bytes", most_bytes=1_000_000)
    many = packed(kind, {f"set/{number}": b"" for number in range(30)})
    refuse(many, tmp_path, "more than the 20 members", most_members=20)


def test_headers_that_unpack_without_end_are_not_followed(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2**32  # claims a comment of 4 GB
    bomb = gzip.compress(header.tobuf() + bytes(20_000_000))
    refuse(bomb, tmp_path, r"unpacks to more than 3,\d+,576 bytes", most_bytes=1_000_000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0, 1, 100, 512, 600, 2048, -1, -200])
def test_a_truncated_archive_is_refused(kind: str, keep: int, tmp_path: Path) -> None:
    content = packed(kind, FILES | {"set/noise": os.urandom(3000)})
    if kind == "tar":  # blocks of zeros at the end, of which a few may go without harm
        content = content.rstrip(b"\0")
    refuse(content[:keep], tmp_path, "damaged or cut off")


@pytest.mark.parametrize(
    ("kind", "position"), [("tar.gz", -5), ("tar.gz", -1), ("tar.gz", 40), ("zip", 70), ("zip", -30), ("tar", 512)]
)
def test_a_corrupt_archive_is_refused(kind: str, position: int, tmp_path: Path) -> None:
    content = bytearray(packed(kind, {"set/noise": os.urandom(3000)}))
    content[position] ^= 0xFF
    refuse(bytes(content), tmp_path, "damaged or cut off")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    refuse(b"<html>404</html>" * 100, tmp_path, "damaged or cut off")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1))
def test_damage_anywhere_never_does_worse_than_a_refusal(
    kind: str, changes: list[tuple[float, int]], tmp_path: Path
) -> None:
    content = bytearray(packed(kind))
    for where, value in changes:
        content[int(where * (len(content) - 1))] = value
    archive, into = tmp_path / "archive", tmp_path / "root"
    archive.write_bytes(bytes(content))
    made: tuple[Path, ...] = ()
    with contextlib.suppress(ValueError):  # anything else is a bug
        made = extract(archive, into, most_bytes=100_000)
    assert sorted(into.iterdir()) == sorted(made)
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "root"}
    shutil.rmtree(into)
