"""Load an image folder slowly and log every decoded image: ``python cache_worker.py FOLDER LOG``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from singleshot.data import decoding, image_source as source, load_dataset


def main() -> None:
    folder, log = sys.argv[1], Path(sys.argv[2])
    decode = decoding.decode_image

    def slow(*arguments: Any, **options: Any) -> Any:
        with log.open("a") as opened:
            opened.write(".")
        time.sleep(0.05)
        return decode(*arguments, **options)

    vars(source)["decode_image"] = slow
    load_dataset(folder, image_size=8)


if __name__ == "__main__":
    main()
