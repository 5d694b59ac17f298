"""A store that speaks S3, in this process, on a loopback port; other processes reach it too."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket, and how it is reached."""

    name: str
    endpoint: str
    filesystem: Any

    def settings(self) -> str:
        """The section of neve.yaml."""
        keys = {"endpoint": self.endpoint, "region": "eu-west-1", "access_key_id": "ada", "secret_access_key": "s3cret"}
        return f"s3: {json.dumps({**keys, 'path_style': True})}\n"

    def put(self, path: str, content: bytes) -> str:
        with self.filesystem.open_output_stream(f"{self.name}/{path}") as stream:
            stream.write(content)
        return f"s3://{self.name}/{path}"

    def get(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(f"{self.name}/{path}") as stream:
            content: bytes = stream.read()
            return content

    def paths(self, folder: str = "") -> list[str]:
        """Every object below a folder, those that stand for folders too, by their paths in it."""
        from pyarrow.fs import FileSelector, FileType

        root = f"{self.name}/{folder}".rstrip("/")
        found = self.filesystem.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        kinds = {info.path[len(root) + 1 :]: info.type for info in found}
        files = [path for path, kind in kinds.items() if kind == FileType.File]
        empty = [path for path in kinds if not any(file == path or file.startswith(f"{path}/") for file in files)]
        return sorted([*files, *(f"{path}/" for path in empty)])

    def download(self, folder: str, target: Path) -> Path:
        """All files of a folder, as another tool gets them that knows nothing of Névé."""
        for path in self.paths(folder):
            if not path.endswith("/"):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(self.get(f"{folder}/{path}"))
        return target


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of the store."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would write a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    from pyarrow.fs import S3FileSystem

    filesystem = S3FileSystem(
        access_key="ada",
        secret_key="s3cret",
        region="eu-west-1",
        scheme="http",
        endpoint_override=s3_server.removeprefix("http://"),
        allow_bucket_creation=True,
    )
    name = f"bucket-{next(_numbers)}"
    filesystem.create_dir(name)
    return Bucket(name, s3_server, filesystem)
