"""The shape of what is known about a published data set."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """One file to download, with every address that serves the same bytes, best first."""

    name: str
    urls: tuple[str, ...]
    size: int
    checksum: str  # "sha256:…" or "md5:…"


@dataclass(frozen=True)
class KnownFile:
    """A file of an unpacked data set; a gzipped one is known by what it unpacks to, for packers differ."""

    name: str
    size: int | None = None
    checksum: str | None = None
    may_be_gzipped: bool = False


@dataclass(frozen=True)
class Layout:
    """One of the forms in which a data set is published, by the files that make it up."""

    name: str
    files: tuple[KnownFile, ...]


@dataclass(frozen=True)
class Publication:
    """A data set: what it holds, where it comes from, and what it looks like once it is here."""

    name: str
    title: str
    homepage: str
    terms: str
    classes: int
    train_images: int
    test_images: int
    downloads: tuple[Download, ...]
    folder: str  # in the data root; archives bring it along, single files are put into it
    layouts: tuple[Layout, ...]
    unpacked_bytes: int | None = None  # an archive that holds much more than this is not the publisher's

    @property
    def is_archived(self) -> bool:
        """Whether the download is an archive to unpack, rather than the files themselves."""
        return self.unpacked_bytes is not None

    @property
    def download_bytes(self) -> int:
        """How much there is to download."""
        return sum(download.size for download in self.downloads)


CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
CIFAR_TERMS = "no licence is stated; the authors ask to cite their technical report (Krizhevsky, 2009)"


def _records(size: int, **sha256: str) -> tuple[KnownFile, ...]:
    """Binary files of this size: images one after the other, each a label or two and 3,072 pixels."""
    return tuple(KnownFile(f"{stem}.bin", size, f"sha256:{digest}") for stem, digest in sha256.items())


def _pickles(**md5: str) -> tuple[KnownFile, ...]:
    return tuple(KnownFile(name, checksum=f"md5:{digest}") for name, digest in md5.items())


CIFAR10 = Publication(
    name="cifar10",
    title="CIFAR-10",
    homepage=CIFAR_PAGE,
    terms=CIFAR_TERMS,
    classes=10,
    train_images=50_000,
    test_images=10_000,
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            170_052_171,
            "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
    folder="cifar-10-batches-bin",
    unpacked_bytes=6 * 30_730_000,
    layouts=(
        Layout(
            "binary",
            (
                *_records(
                    10_000 * 3_073,
                    data_batch_1="cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    data_batch_2="a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    data_batch_3="bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    data_batch_4="014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    data_batch_5="755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    test_batch="8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                ),
                KnownFile("batches.meta.txt"),
            ),
        ),
        Layout(
            "python",
            (
                *_pickles(
                    data_batch_1="c99cafc152244af753f735de768cd75f",
                    data_batch_2="d4bba439e000b95fd0a9bffe97cbabec",
                    data_batch_3="54ebc095f3ab1f0389bbae665268c751",
                    data_batch_4="634d18415352ddfa80567beed471001a",
                    data_batch_5="482c414d41f54cd18b22e5b47cb7c3cb",
                    test_batch="40351d587109b95175f43aff81a1287e",
                ),
                KnownFile("batches.meta", checksum="md5:5ff9c542aee3614f3951f8cda6e48888"),
            ),
        ),
    ),
)

CIFAR100 = Publication(
    name="cifar100",
    title="CIFAR-100",
    homepage=CIFAR_PAGE,
    terms=CIFAR_TERMS,
    classes=100,
    train_images=50_000,
    test_images=10_000,
    downloads=(
        Download(
            "cifar-100-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            168_513_733,
            "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
    folder="cifar-100-binary",
    unpacked_bytes=60_000 * 3_074,
    layouts=(
        Layout(
            "binary",
            (
                *_records(50_000 * 3_074, train="f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
                *_records(10_000 * 3_074, test="d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
                KnownFile("fine_label_names.txt"),
            ),
        ),
        Layout(
            "python",
            _pickles(
                train="16019d7e3df5f24257cddd939b257f8d",
                test="f0ef6b0ae62326f3e7ffdfab6717acfc",
                meta="7973b15100ade9c7d40fb424638fde48",
            ),
        ),
    ),
)

TINY_IMAGENET = Publication(
    name="tiny_imagenet",
    title="Tiny ImageNet",
    homepage="https://cs231n.stanford.edu/",
    terms="images of ImageNet, whose terms allow non-commercial research and education only",
    classes=200,
    train_images=100_000,
    test_images=10_000,
    downloads=(
        Download(
            "tiny-imagenet-200.zip",
            (
                "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            ),
            248_100_043,
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
        ),
    ),
    folder="tiny-imagenet-200",
    unpacked_bytes=260_000_000,  # JPEGs hardly shrink: the archive is about as large as its content
    layouts=(
        Layout(
            "images by class",
            (KnownFile("wnids.txt"),),  # the images are counted instead
        ),
    ),
)


def _idx_layout(train_images: str, train_labels: str, test_images: str, test_labels: str) -> Layout:
    """The four files of MNIST and its followers by the md5 of each: a header, then a byte for a pixel or a label."""
    pixels = 28 * 28
    return Layout(
        "idx",
        tuple(
            KnownFile(name, size, f"md5:{digest}", may_be_gzipped=True)
            for name, size, digest in (
                ("train-images-idx3-ubyte", 16 + 60_000 * pixels, train_images),
                ("train-labels-idx1-ubyte", 8 + 60_000, train_labels),
                ("t10k-images-idx3-ubyte", 16 + 10_000 * pixels, test_images),
                ("t10k-labels-idx1-ubyte", 8 + 10_000, test_labels),
            )
        ),
    )


def _idx_downloads(bases: tuple[str, ...], files: tuple[tuple[str, int, str], ...]) -> tuple[Download, ...]:
    return tuple(
        Download(name, tuple(base + name for base in bases), size, f"sha256:{digest}") for name, size, digest in files
    )


MNIST = Publication(
    name="mnist",
    title="MNIST",
    homepage="http://yann.lecun.com/exdb/mnist/",
    terms="Creative Commons Attribution-Share Alike 3.0",
    classes=10,
    train_images=60_000,
    test_images=10_000,
    downloads=_idx_downloads(
        # the publisher's own server no longer hands out the files; these are the copies that libraries use
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            (
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    folder="mnist",
    layouts=(
        _idx_layout(
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
)

FASHION_MNIST = Publication(
    name="fashion_mnist",
    title="Fashion-MNIST",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    terms="MIT licence",
    classes=10,
    train_images=60_000,
    test_images=10_000,
    downloads=_idx_downloads(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (
            (
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            ("train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            (
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            ("t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
    folder="fashion_mnist",
    layouts=(
        _idx_layout(
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
)

PUBLICATIONS: dict[str, Publication] = {
    publication.name: publication for publication in (CIFAR10, CIFAR100, FASHION_MNIST, MNIST, TINY_IMAGENET)
}


def publication(name: str) -> Publication:
    """The facts about a published data set, or an error that suggests the nearest name."""
    if name in PUBLICATIONS:
        return PUBLICATIONS[name]
    if name == "digits":
        raise ValueError("digits comes with scikit-learn: it is always there, and there is nothing to download")
    near = difflib.get_close_matches(name.lower().replace("-", "_"), PUBLICATIONS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ValueError(f"there is no data set {name!r} to download; {hint}There are {', '.join(PUBLICATIONS)}")
