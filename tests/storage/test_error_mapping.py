"""What the libraries say becomes one short phrase, without file names deciding what it means."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from omnigraph.errors import CorruptGraph, StoreUnavailable
from omnigraph.storage.objects.native_libraries import is_outage, reason, store_errors

_S3 = "LanceError(IO): Generic S3 error: Error performing GET http://host/b - Server returned non-2xx status code: "


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Unable to copy data to file: No space left on device (os error 28), /x/local.rs:1:2", "the disk is full"),
        ("Generic LocalFileSystem error: Read-only file system (os error 30)", "the file system is read-only"),
        ("Unable to create dir /data/a b/_refs: Permission denied (os error 13)", "permission was denied"),
        (f"{_S3}403 Forbidden: <Error><Code>AccessDenied</Code></Error>", "permission was denied"),
        (
            f"{_S3}403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code></Error>",
            "the clock of this machine differs from the store's",
        ),
        (f"{_S3}404 Not Found: <Error><Code>NoSuchBucket</Code></Error>", "the bucket does not exist"),
        (f"{_S3}500 Internal Server Error: ", "the store answered with a server error"),
        (f"{_S3}503 Slow Down: ", "the store answered with a server error"),
        ("Generic S3 error: error sending request for url (http://127.0.0.1:9/b)", "the endpoint does not answer"),
        ("Generic S3 error: operation timed out", "the store timed out"),
    ],
)
def test_a_failing_store_is_named_and_known_as_an_outage(text: str, phrase: str) -> None:
    assert reason(OSError(text)) == phrase
    assert is_outage(ValueError(text))


@pytest.mark.parametrize(
    "text",
    [
        "Dataset at path data/forbidden/403/g was not found: Not found: data/timeout/g/_versions, /x/a.rs:1:2",
        "Not found: nodes/a403f0/data/0403.lance",
        "Invalid user input: unknown column x",
        "Generic N/A error: Not found: tmp/g/data/1.lance",
        "LanceError(IO): Generic memory error: Invalid range 0..9 for object of size 3 bytes",
    ],
)
def test_a_missing_thing_is_no_outage_whatever_its_path_says(text: str) -> None:
    assert not is_outage(ValueError(text))
    assert reason(ValueError(text)).split(",")[0] in text


def test_source_places_and_long_texts_are_cut() -> None:
    phrase = reason(OSError("Something odd, /home/x/rust/lance/src/a.rs:1:2\nsecond line"))
    assert phrase == "Something odd"
    assert len(reason(OSError("x" * 10_000))) <= 200
    assert reason(OSError("")) == "OSError"


@pytest.mark.parametrize(
    ("text", "damage"),
    [
        ("Not found: /x/g/nodes/1/data/0a.lance, /y/a.rs:1:2", "file /x/g/nodes/1/data/0a.lance is missing"),
        ("Object at location g/data/0a.lance not found: 404", "file g/data/0a.lance is missing"),
        ("Not found: /x/_deletions/1-2-3.arrow", "file /x/_deletions/1-2-3.arrow is missing"),
        (
            "I/O request for file g/data/0a.lance and range 1..9 returned 3 bytes, expected 8 bytes",
            "g/data/0a.lance is cut",
        ),
        (f"{_S3.replace('/b', '/b/data/0a.lance')}416 Range Not Satisfiable: ", "b/data/0a.lance is cut"),
        ("LanceError(IO): Generic LocalFileSystem error: failed to fill whole buffer", "one of its files is cut"),
    ],
)
def test_a_damaged_file_is_no_outage(text: str, damage: str) -> None:
    for error in (OSError(text), ValueError(text), pa.ArrowInvalid(f"External error: LanceError(IO): {text}")):
        with pytest.raises(CorruptGraph, match=re.escape(damage)), store_errors("do it"):
            raise error


def test_what_a_store_call_raises_is_wrapped_and_ours_passes() -> None:
    for error in (OSError("a"), RuntimeError("a"), pa.ArrowInvalid("External error: LanceError(IO): a")):
        with pytest.raises(StoreUnavailable, match="could not do it"), store_errors("do it"):
            raise error
    with pytest.raises(pa.ArrowInvalid), store_errors("do it"):
        raise pa.ArrowInvalid("Float value 1.5 was truncated")
    with pytest.raises(StoreUnavailable, match="inner"), store_errors("do it"):
        raise StoreUnavailable("inner")
