"""A bet on the fastest of a few layouts: whether it wins, and by how much."""

from __future__ import annotations

from collections.abc import Mapping


def settled(bet: str | None, seconds: Mapping[str, float]) -> str:
    """Return in words how far the bet lies before the second or behind the first; nothing if there is no bet."""
    if bet not in seconds:
        return "" if bet is None else f"your bet {bet!r} is none of {', '.join(seconds)}"
    rival = min((name for name in seconds if name != bet), key=lambda name: seconds[name])
    lead = round(seconds[rival], 2) - round(seconds[bet], 2)  # of the seconds as they are printed
    return f"your bet {bet} {'beats' if lead > 0 else 'loses to'} {rival} by {abs(lead):.2f} s"
