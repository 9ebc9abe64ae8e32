"""The event of an invitation (RFC 5545 and 5546), read in a limited process."""

from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any

from tools.mail.parsers import Unparsable, run
from tools.mail.text.decoding import without_controls

MOST_CHARACTERS = 256 * 1024
TEXT_CHARACTERS = 300
MOST_ATTENDEES = 20
UNREADABLE = "The calendar entry could not be read."
TYPES = ("text/calendar", "application/ics")


@dataclass(frozen=True, kw_only=True)
class Event:
    """The facts of an event. Times are RFC 3339 in the zone of the event, days for an all-day event,
    of which `end` is the last day. `recurs` is its rule in the language of RFC 5545.

    A time without an offset is meant in the zone of its reader.
    """

    method: str = ""
    summary: str = ""
    start: str = ""
    end: str = ""
    time_zone: str = ""
    all_day: bool = False
    recurs: str = ""
    occurrence: str = ""
    cancelled: bool = False
    organizer: str = ""
    location: str = ""
    attendees: tuple[str, ...] = ()
    more_attendees: int = 0
    answers: tuple[tuple[str, str], ...] = ()
    uid: str = ""
    more_events: int = 0


def read_invitation(text: str, method: str) -> tuple[dict[str, Any], str]:
    """Return the facts of a calendar entry, empty members left out, and a note if it cannot be
    read.

    `method` is the one that the part names; the calendar's own counts if the part names none.
    """
    try:
        event = run(read_event, text[:MOST_CHARACTERS])
    except Unparsable as error:
        error.raise_if_busy()
        return {"method": method.upper()} if method else {}, UNREADABLE
    facts: dict[str, Any] = {**asdict(event), "method": (method or event.method).upper()}
    facts["cancelled"] = event.cancelled or facts["method"] == "CANCEL"
    facts["answers"] = [{"attendee": who, "answer": answer} for who, answer in event.answers]
    facts["attendees"] = list(event.attendees)
    found = {name: value for name, value in facts.items() if value}
    return found, "" if event.start or event.summary else UNREADABLE


def read_event(text: str) -> Event:
    """Return the first event of a calendar: a job for a limited process."""
    # Imported here: it costs a tenth of a second, and few mails need it.
    from icalendar import Calendar

    calendar: Any = Calendar.from_ical(text)
    events = [*calendar.walk("VEVENT"), *calendar.walk("VTODO")]
    method = _plain(calendar.get("METHOD"))
    if not events:
        return Event(method=method)
    event = next((each for each in events if "RECURRENCE-ID" not in each), events[0])
    start, end, all_day = _times(event)
    attendees = _listed(event, "ATTENDEE")
    rule = event.get("RRULE")
    return Event(
        method=method,
        summary=_plain(event.get("SUMMARY")),
        start=_written(start),
        end=_written(end),
        time_zone=_zone(start),
        all_day=all_day,
        recurs=_plain(rule.to_ical().decode("utf-8", "replace"))
        if hasattr(rule, "to_ical")
        else "",
        occurrence=_written(_moment(event, "RECURRENCE-ID")),
        cancelled=_plain(event.get("STATUS")).upper() == "CANCELLED",
        organizer=next(iter(_people(_listed(event, "ORGANIZER"))), ""),
        location=_plain(event.get("LOCATION")),
        attendees=tuple(_people(attendees[:MOST_ATTENDEES])),
        more_attendees=max(len(attendees) - MOST_ATTENDEES, 0),
        answers=tuple(_answers(attendees[:MOST_ATTENDEES])) if method.upper() == "REPLY" else (),
        uid=_plain(event.get("UID")),
        more_events=sum("RECURRENCE-ID" not in each for each in events if each is not event),
    )


def _times(event: Any) -> tuple[date | None, date | None, bool]:
    start = _moment(event, "DTSTART")
    end = _moment(event, "DTEND") or _moment(event, "DUE")
    duration = getattr(event.get("DURATION"), "dt", None)
    if start is not None and end is None and isinstance(duration, timedelta):
        end = start + duration
    all_day = start is not None and not isinstance(start, datetime)
    if all_day and end is not None and not isinstance(end, datetime) and end > start:  # type: ignore[operator]
        end -= timedelta(days=1)  # the calendar names the day after
    return start, end, all_day


def _moment(event: Any, name: str) -> date | None:
    given = event.get(name)
    found = getattr(given[0] if isinstance(given, list) and given else given, "dt", None)
    return found if isinstance(found, date) else None


def _written(moment: date | None) -> str:
    if isinstance(moment, datetime):
        written = moment.isoformat(timespec="seconds")
        return written.replace("+00:00", "Z")
    return moment.isoformat() if moment is not None else ""


def _zone(moment: date | None) -> str:
    zone = moment.tzinfo if isinstance(moment, datetime) else None
    name = getattr(zone, "key", None) or (str(zone) if zone else "")
    return _plain(name) if "<" not in name else ""


def _listed(event: Any, name: str) -> list[Any]:
    given = event.get(name)
    return given if isinstance(given, list) else [given] if given is not None else []


def _people(given: list[Any]) -> list[str]:
    found = []
    for each in given:
        address = _plain(each)
        address = address[7:] if address.lower().startswith("mailto:") else address
        name = _plain(getattr(each, "params", {}).get("CN"))
        found.append(f"{name} <{address}>" if name and name != address else address)
    return [each for each in found if each]


def _answers(given: list[Any]) -> list[tuple[str, str]]:
    stated = [_plain(getattr(each, "params", {}).get("PARTSTAT")).lower() for each in given]
    return [(who, answer) for who, answer in zip(_people(given), stated, strict=False) if answer]


def _plain(value: Any) -> str:
    text = without_controls(str(value)) if value is not None else ""
    return " ".join(text.split())[:TEXT_CHARACTERS]
