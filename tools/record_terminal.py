#!/usr/bin/env python3
"""Run a command in a terminal of its own and record what it shows, in the asciicast v2 format (asciinema plays it).

    tools/record_terminal.py -o run.cast -- layerscope measure --model MODEL --corpus TEXT.txt --out RUN
    tools/record_terminal.py --check run.cast

--check prints each phase with its first and last line, and the longest time in which nothing moved. It fails if that is more than
--longest seconds.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

BAR = re.compile(r"^[|/\\-] (?P<phase>loading|hashing|reading|pilot|measuring|merging|writing|computing tables)\b(?P<rest>.*)$")


def record(command: list[str], out: str, size: tuple[int, int], interrupt: str | None) -> int:
    """Record the command; send Ctrl-C after `interrupt` seconds, or when it shows that text. Return its exit status."""
    columns, rows = size
    child, screen = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    start, text = time.monotonic(), b""
    number = float(interrupt) if interrupt and interrupt.replace(".", "").isdigit() else None
    with open(out, "w") as file:
        header = {"version": 2, "width": columns, "height": rows, "timestamp": int(time.time()), "command": " ".join(command)}
        file.write(json.dumps(header) + "\n")
        while True:
            now = time.monotonic() - start
            if interrupt and (interrupt.encode() in text if number is None else now >= number):
                file.write(json.dumps([round(now, 4), "i", "\x03"]) + "\n")
                os.kill(child, signal.SIGINT)
                interrupt = None
            if not select.select([screen], [], [], 0.02)[0]:
                continue
            try:
                text = os.read(screen, 65536)
            except OSError:
                break
            if not text:
                break
            file.write(json.dumps([round(time.monotonic() - start, 4), "o", text.decode(errors="replace")]) + "\n")
        _, status = os.waitpid(child, 0)
        end = time.monotonic() - start
        file.write(json.dumps([round(end, 4), "m", f"exit {os.waitstatus_to_exitcode(status)}"]) + "\n")
    return os.waitstatus_to_exitcode(status)


def lines(recording: str) -> tuple[list[tuple[float, str]], float, float | None]:
    """Return every line as it was shown, the end, and when Ctrl-C was sent."""
    shown, end, asked = [], 0.0, None
    with open(recording) as file:
        next(file)
        for row in file:
            at, kind, text = json.loads(row)
            end = at
            if kind == "i":
                asked = at
            elif kind == "o":
                parts = re.split(r"\r\x1b\[K|\r?\n", text)
                shown.extend((at, part) for part in parts if part.strip())
    return shown, end, asked


def check(recording: str, longest: float) -> int:
    """Print what was shown, phase by phase. Return 1 if something stood still for too long."""
    shown, end, asked = lines(recording)
    bars = [(at, BAR.match(text)) for at, text in shown]
    bars = [(at, match["phase"], match["rest"].strip()) for at, match in bars if match]
    phases: list[str] = []
    for _, phase, _ in bars:
        if not phases or phases[-1] != phase:
            phases.append(phase)
    for phase in dict.fromkeys(phases):
        own = [(at, rest) for at, name, rest in bars if name == phase]
        print(f"{phase}: {len(own)} times from {own[0][0]:.1f} s to {own[-1][0]:.1f} s")
        print(f"    first {own[0][1]}\n    last  {own[-1][1]}")
    times = [0.0] + [at for at, _ in shown] + [end]
    gaps = sorted(((after - before, before) for before, after in zip(times, times[1:])), reverse=True)
    print(f"{end:.1f} s in all; longest without a change: " + ", ".join(f"{gap:.2f} s after {at:.1f} s" for gap, at in gaps[:3]))
    if asked is not None:
        heard = [at for at, text in shown if at >= asked and text.startswith("layerscope: ")]
        print(f"Ctrl-C at {asked:.2f} s: a line after {heard[0] - asked:.2f} s, the end after {end - asked:.2f} s" if heard else "Ctrl-C: no line")
    return int(gaps[0][0] > longest)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", default="terminal.cast", help="the recording")
    parser.add_argument("--check", metavar="FILE", help="look at a recording instead")
    parser.add_argument("--longest", type=float, default=0.5, help="seconds in which nothing may move")
    parser.add_argument("--size", default="100x24", help="columns x rows")
    parser.add_argument("--interrupt", metavar="WHEN", help="send Ctrl-C after so many seconds, or when this text is shown")
    parser.add_argument("command", nargs="*", help="the command, after --")
    asked = parser.parse_args()
    if asked.check:
        return check(asked.check, asked.longest)
    if not asked.command:
        parser.error("give a command after --")
    columns, rows = map(int, asked.size.split("x"))
    return record(asked.command, asked.out, (columns, rows), asked.interrupt)


if __name__ == "__main__":
    sys.exit(main())
