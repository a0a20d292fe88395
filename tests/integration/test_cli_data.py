"""Output and exit codes of ``singleshot data``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tyro.extras import SubcommandApp

from local_server import Page, Site, serve
from singleshot.cli import main as cli
from singleshot.cli.data import data_app
from singleshot.data.registry import load_dataset
from small_publications import publish, tiny_imagenet_files, write

Run = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run ``singleshot data ...`` in this process, where the publishers can be replaced."""
    monkeypatch.setenv("SINGLESHOT_CACHE", str(tmp_path / "decoded"))
    monkeypatch.setenv("SINGLESHOT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def commands(args: object) -> SubcommandApp:
        app = SubcommandApp()
        app.command(data_app, name="data", help="List, verify and download data sets.")
        return app

    monkeypatch.setattr(cli, "commands", commands)

    def run(*args: str) -> tuple[int, str, str]:
        code: object = 0
        try:
            cli.main(["data", *args])
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        assert isinstance(code, int)
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


def test_help_has_an_example(run: Run) -> None:
    for command, example in [
        ("list", "singleshot data list"),
        ("check", "singleshot data check cifar100 --data-root DIR"),
        ("fetch", "singleshot data fetch cifar100 --data-root DIR"),
    ]:
        code, out, _ = run(command, "--help")
        assert code == 0
        assert f"Example: {example}" in out
        assert command == "list" or "NAME" in out


def test_commands_import_no_slow_packages() -> None:
    program = (
        "import sys, singleshot.cli.data, singleshot.data.catalogue, singleshot.data.fetching.check\n"
        "print({'torch', 'matplotlib', 'sklearn'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_list(run: Run, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:7]] == [
        "cifar10", "cifar100", "digits", "fashion_mnist", "mnist", "tiny_imagenet",
    ]  # fmt: skip
    assert "169 MB  not downloaded" in out
    assert str(tmp_path / "data") in out
    serve_cifar100(site, monkeypatch)
    run("fetch", "cifar100")
    assert str(tmp_path / "data" / "cifar-100-binary") in run("list")[1]
    rows = {row["name"]: row for row in json.loads(run("list", "--json")[1])}
    assert rows["cifar100"]["folder"] == str(tmp_path / "data" / "cifar-100-binary")
    assert rows["mnist"]["folder"] is None
    assert rows["tiny_imagenet"]["images"] == 110_000
    assert all(row["terms"] and row["homepage"] for row in rows.values())


def serve_cifar100(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages |= {f"/{name}": Page(body) for name, body in publish(monkeypatch, "cifar100", [site.url]).items()}


def test_fetch_check_and_repair(run: Run, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_cifar100(site, monkeypatch)
    folder = tmp_path / "elsewhere" / "cifar-100-binary"
    root = ("--data-root", str(folder.parent))

    code, out, _ = run("check", "cifar100", *root)
    assert code == 1
    assert f"cifar100 was not found in:\n  {folder}" in out
    assert "with: singleshot data fetch cifar100" in out

    code, out, err = run("fetch", "cifar100", *root)
    assert (code, out) == (0, f"cifar100 is in {folder}\n")
    assert f"downloading {site.url}/cifar-100-binary.tar.gz" in err
    assert "unpacking cifar-100-binary.tar.gz" in err
    assert "cifar-100-binary.tar.gz: 0.9 of 0.9 MB" in err  # progress in plain lines
    assert len(load_dataset("cifar100", data_root=folder.parent).train) == 200
    assert "already in" in run("fetch", "cifar100", *root)[2]

    code, out, _ = run("check", "cifar100", *root)
    assert code == 0
    assert "train.bin: ok" in out
    assert "200 training images, 2 in each of 100 classes" in out
    assert out.endswith("No faults found.\n")

    (folder / "test.bin").write_bytes((folder / "test.bin").read_bytes()[:-10])
    code, out, _ = run("check", "cifar100", *root)
    assert code == 1
    assert "test.bin: 307,390 bytes, expected 307,400" in out
    assert "with: singleshot data fetch cifar100" in out
    code, out, _ = run("check", "cifar100", "--json", *root)
    assert code == 1
    assert {file["path"]: file["fault"] for file in json.loads(out)["files"]}[str(folder / "test.bin")]
    assert run("fetch", "cifar100", *root)[0] == 0
    assert run("check", "cifar100", *root)[0] == 0
    assert (folder.parent / "cifar-100-binary.old-1" / "test.bin").exists()


def test_failed_download_explains_the_manual_way(
    run: Run, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_cifar100(site, monkeypatch)
    site.pages.clear()
    code, out, err = run("fetch", "cifar100")
    assert (code, out) == (1, "")
    url = f"{site.url}/cifar-100-binary.tar.gz"
    assert f"{url}: the server responded with 404" in err
    assert f"To download it manually, save {url}" in err
    assert str(tmp_path / "data" / "cifar-100-binary.tar.gz") in err


def test_user_errors_exit_with_2(run: Run) -> None:
    for args, message in [
        (["check", "cifar1000"], "cifar100"),
        (["fetch", "cifar1000"], "did you mean 'cifar100'?"),
        (["fetch", "digits"], "nothing to download"),
        (["check", "no/such/folder"], "no/such/folder"),
        (["check"], "NAME"),
        (["fetch"], "NAME"),
        (["chekc"], "check"),
        ([], "list, check, fetch"),
    ]:
        code, out, err = run(*args)
        assert (code, out) == (2, ""), args
        assert message in err


def test_subsets_and_unreadable_images(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, "tiny_imagenet", [])
    folder = tmp_path / "data" / "tiny-imagenet-200"
    files = tiny_imagenet_files()
    write(folder, {name: content for name, content in files.items() if "_3.JPEG" not in name})
    code, out, _ = run("check", "tiny_imagenet")
    assert code == 0
    assert "it is a subset: 9 of 12 training images." in out
    for image in (folder / "train").rglob("*_0.JPEG"):
        image.write_bytes(b"")
    code, out, _ = run("check", "tiny_imagenet")
    assert code == 1
    assert "3 images cannot be read:" in out
    assert "n00000002_0.JPEG" in out


def test_check_of_a_folder_and_of_digits(run: Run, tmp_path: Path) -> None:
    images = [content for name, content in tiny_imagenet_files().items() if name.endswith("JPEG")]
    write(tmp_path / "pets", {f"{kind}/{number}.jpg": images[number] for kind in ("cat", "dog") for number in range(5)})
    code, out, _ = run("check", str(tmp_path / "pets"))
    assert code == 0
    assert "8 training images, 4 in each of 2 classes" in out
    (tmp_path / "pets" / "dog" / "\x1b[2J.jpg").write_bytes(b"")
    code, out, _ = run("check", str(tmp_path / "pets"))
    assert code == 1
    assert "\\x1b[2J.jpg" in out  # escaped, because a terminal would execute it
    assert "Repair or remove the files named above." in out
    assert run("check", "digits")[0] == 0


def test_fetch_from_a_mirror_end_to_end(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as site:
        served = publish(monkeypatch, "tiny_imagenet", ["http://127.0.0.1:9/unreachable"])
        site.pages = {f"/tiny_imagenet/{file}": Page(content, cuts=[5000]) for file, content in served.items()}
        code, output, errors = run("fetch", "tiny_imagenet", "--mirror", site.url)
    assert code == 0, errors
    assert f"downloading {site.url}/tiny_imagenet/" in errors
    assert output == f"tiny_imagenet is in {tmp_path / 'data' / 'tiny-imagenet-200'}\n"
    code, output, _ = run("check", "tiny_imagenet")
    assert (code, "No faults found." in output) == (0, True)
