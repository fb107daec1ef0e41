"""Durations such as 45s, 5m or 1h30m, in seconds."""

import re

UNITS = {"s": 1, "m": 60, "h": 3600}


def parse(text):
    total = 0
    for number, unit in re.findall(r"(\d+)([smh])", text):
        total = int(number) * UNITS[unit]
    return total
