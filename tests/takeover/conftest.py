"""The place where cases are played."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.s3_server import S3Server
from tests.takeover.rig import TakeoverRig, takeover_rig


@pytest.fixture(scope="module")
def one_scene(s3: S3Server) -> Iterator[TakeoverRig]:
    """Starting two processes takes longer than a case."""
    with takeover_rig(s3, f"{s3.url}/{uuid4().hex}", thorough=False) as made:
        yield made


@pytest.fixture
def place(one_scene: TakeoverRig) -> TakeoverRig:
    one_scene.begin()
    one_scene.thorough = False
    return one_scene


@pytest.fixture
def thorough_place(place: TakeoverRig) -> TakeoverRig:
    place.thorough = True
    return place
