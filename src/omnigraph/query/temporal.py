"""Dates and instants as text: the one reader and writer for queries, parameters, loads and results.

A `Date` is a ``datetime.date``, a `DateTime` an aware UTC ``datetime`` in whole milliseconds; ``to_days`` and
``to_millis`` give the stored integers. Years 1 to 9999. All refusals are plain ``ValueError`` with the language's text;
callers add the place.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from omnigraph.schema.catalog import Scalar

_EPOCH_DATE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_SHOWN = 100

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME = re.compile(
    r"""
    ([0-9]{4})-([0-9]{2})-([0-9]{2})
    (?:
        [Tt\ ] ([0-9]{2}):([0-9]{2}):([0-9]{2}) (?:\.([0-9]+))?
        (?: [Zz] | ([+-])([0-9]{2}):([0-9]{2}) )?
    )?
    """,
    re.VERBOSE,
)


#: How dates and instants are written, for those who wrote them otherwise.
FORMS = {Scalar.DATE: "YYYY-MM-DD", Scalar.DATETIME: "YYYY-MM-DDThh:mm:ssZ"}


def parse_date(text: str) -> date:
    """Read ``YYYY-MM-DD``.

    Raises:
        ValueError: ``invalid Date literal '…'``.

    Example:
        >>> parse_date("2024-02-29")
        datetime.date(2024, 2, 29)
    """
    found = _DATE.fullmatch(text)
    try:
        if found is not None:
            return date(*map(int, found.groups()))
    except ValueError:
        pass
    raise ValueError(f"invalid Date literal '{_shown(text)}'")


def parse_datetime(text: str) -> datetime:
    """Read an RFC 3339 instant into UTC, sub-millisecond digits dropped.

    The separator is ``T`` or a space, the fraction is optional, a missing offset means UTC and a bare date means
    midnight UTC. Second 60 is the first second of the next minute.

    Raises:
        ValueError: ``invalid DateTime literal '…'``.

    Example:
        >>> format_datetime(parse_datetime("2026-02-14 10:00:00.12345+01:00"))
        '2026-02-14T09:00:00.123Z'
    """
    found = _DATETIME.fullmatch(text)
    try:
        if found is not None:
            return _instant(*found.groups())
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"invalid DateTime literal '{_shown(text)}'")


def _instant(
    year: str, month: str, day: str,
    hour: str | None, minute: str | None, second: str | None, fraction: str | None,
    sign: str | None, offset_hours: str | None, offset_minutes: str | None,
) -> datetime:  # fmt: skip
    midnight = datetime(int(year), int(month), int(day), tzinfo=UTC)
    if hour is None:
        return midnight
    hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
    millis = int((fraction or "0")[:3].ljust(3, "0"))
    away_hours, away_minutes = int(offset_hours or 0), int(offset_minutes or 0)
    if hours > 23 or minutes > 59 or seconds > 60 or away_hours > 23 or away_minutes > 59:
        raise ValueError
    away = timedelta(hours=away_hours, minutes=away_minutes) * (-1 if sign == "-" else 1)
    return midnight + (timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=millis) - away)


def to_utc(moment: datetime) -> datetime:
    """A Python ``datetime`` as a value of the language: naive means UTC, microseconds are cut to milliseconds."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.replace(microsecond=aware.microsecond // 1000 * 1000)


def to_days(day: date) -> int:
    """Days since 1970-01-01, as a Date is stored."""
    return (day - _EPOCH_DATE).days


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970-01-01T00:00:00Z, as a DateTime is stored."""
    return (to_utc(moment) - _EPOCH) // _MILLISECOND


def from_days(days: int) -> date:
    """The date of a stored integer.

    Raises:
        ValueError: ``Date value out of range: N``.
    """
    try:
        return _EPOCH_DATE + timedelta(days=days)
    except OverflowError:
        raise ValueError(f"Date value out of range: {days}") from None


def from_millis(millis: int) -> datetime:
    """The instant of a stored integer.

    Raises:
        ValueError: ``DateTime value out of range: N``.
    """
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        raise ValueError(f"DateTime value out of range: {millis}") from None


def format_datetime(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SS.mmmZ``, as results show it."""
    return to_utc(moment).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
