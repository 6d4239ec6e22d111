"""Dates and instants as text, and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.query.temporal import (
    format_datetime,
    from_days,
    from_millis,
    parse_date,
    parse_datetime,
    to_days,
    to_millis,
    to_utc,
)


@pytest.mark.parametrize(
    ("text", "days"), [("1970-01-01", 0), ("2024-01-01", 19723), ("1969-12-31", -1), ("2024-02-29", 19782)]
)
def test_dates(text: str, days: int) -> None:
    assert to_days(parse_date(text)) == days
    assert from_days(days).isoformat() == text


@pytest.mark.parametrize(
    "text",
    ["", "2024-02", "2024-2-1", "2023-02-29", "0000-01-01", "2024-01-01T00:00:00Z", " 2024-01-01", "2024-01-01 ",
     "2024/01/01", "20240101", "+2024-01-01", "2024-13-01", "2024-01-00", "٢٠٢٤-01-01", "2024-01-01\n"],
)  # fmt: skip
def test_bad_dates(text: str) -> None:
    with pytest.raises(ValueError, match="invalid Date literal") as caught:
        parse_date(text)
    assert str(caught.value) == f"invalid Date literal '{text}'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000Z"),
        ("2024-01-01t00:00:00z", "2024-01-01T00:00:00.000Z"),
        ("2024-01-01 10:20:30", "2024-01-01T10:20:30.000Z"),
        ("2024-01-01T10:20:30.5", "2024-01-01T10:20:30.500Z"),
        ("2024-01-01T10:20:30.12Z", "2024-01-01T10:20:30.120Z"),
        ("2024-01-01T10:20:30.123999999999Z", "2024-01-01T10:20:30.123Z"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        ("2025-06-01T10:00:00+02:00", "2025-06-01T08:00:00.000Z"),
        ("2025-06-01 10:00:00.25-05:30", "2025-06-01T15:30:00.250Z"),
        ("2024-12-31T23:30:00-01:00", "2025-01-01T00:30:00.000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
        ("2024-01-01", "2024-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_instants(text: str, shown: str) -> None:
    assert format_datetime(parse_datetime(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["", "now", "2024-01-01T", "2024-01-01T10:20Z", "2024-01-01T24:00:00Z", "2024-01-01T10:60:00Z",
     "2024-01-01T10:20:61Z", "2024-01-01T10:20:30.Z", "2024-01-01T10:20:30+0200", "2024-01-01T10:20:30+24:00",
     "2024-01-01T10:20:30+02:60", "2024-01-01Z", "2024-02-30", "2024-02-30T00:00:00Z", "0001-01-01T00:00:00+01:00",
     "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:60Z", "2024-01-01T10:20:30 Z", "2024-01-01T10:20:30Z\n"],
)  # fmt: skip
def test_bad_instants(text: str) -> None:
    with pytest.raises(ValueError, match="invalid DateTime literal") as caught:
        parse_datetime(text)
    assert str(caught.value) == f"invalid DateTime literal '{text}'"


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match="invalid Date literal") as caught:
        parse_date("9" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_stored_integers_out_of_range() -> None:
    with pytest.raises(ValueError, match="Date value out of range: 10000000"):
        from_days(10_000_000)
    with pytest.raises(ValueError, match="DateTime value out of range"):
        from_millis(10**18)
    with pytest.raises(ValueError, match="out of range"):
        from_days(10**30)


def test_python_datetimes() -> None:
    assert to_utc(datetime(2024, 1, 1, 12, 0, 0, 123_999)) == datetime(2024, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    ahead = timezone(timedelta(hours=2))
    assert to_utc(datetime(2024, 1, 1, 12, tzinfo=ahead)) == datetime(2024, 1, 1, 10, tzinfo=UTC)


@given(st.dates())
def test_every_date_comes_back(day: date) -> None:
    assert parse_date(day.isoformat()) == day
    assert from_days(to_days(day)) == day


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_instant_comes_back_in_milliseconds(moment: datetime) -> None:
    cut = to_utc(moment)
    assert parse_datetime(format_datetime(moment)) == cut
    assert from_millis(to_millis(moment)) == cut
