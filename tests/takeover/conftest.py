"""The place where cases are played."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.s3_server import S3Server
from tests.takeover.scene import Scene, scene


@pytest.fixture(scope="module")
def one_scene(s3: S3Server) -> Iterator[Scene]:
    """Starting two processes takes longer than a case."""
    with scene(s3, f"{s3.url}/{uuid4().hex}", thorough=False) as made:
        yield made


@pytest.fixture
def place(one_scene: Scene) -> Scene:
    one_scene.begin()
    one_scene.thorough = False
    return one_scene


@pytest.fixture
def thorough_place(place: Scene) -> Scene:
    place.thorough = True
    return place
