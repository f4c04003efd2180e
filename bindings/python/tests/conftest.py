"""A database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import quire


@pytest.fixture
def db(tmp_path: Path) -> Iterator[quire.Database]:
    with quire.open(tmp_path / "data", sync="os") as database:
        yield database
