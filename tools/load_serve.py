"""How fast `layerscope serve` answers a browser while a thousand slow clients hold on to it.

    python tools/load_serve.py RUN... [--program target/release/layerscope] [--clients 1000] [--seconds 20]

A third of them connect and say nothing, a third send a letter of a request every second, a third ask for the page a hundred times and
read a byte a second. Whoever is sent away comes back a second later. The browser asks for the page and its blocks one after another, first
on one connection (where it was closed, it opens another, and that time counts), then on a new one for every answer.
"""

import argparse
import asyncio
import http.client
import multiprocessing
import re
import resource
import socket
import statistics
import subprocess
import time


class Browser:
    """A connection that is opened again where it was closed; unless it is kept, for every answer."""

    def __init__(self, address, keeps):
        self.address, self.keeps, self.connection, self.opened = address, keeps, None, 0

    def get(self, path):
        while True:
            if self.connection is None:
                self.connection, self.opened = http.client.HTTPConnection(*self.address, timeout=60), self.opened + 1
            try:
                self.connection.request("GET", path)
                answer = self.connection.getresponse()
                content = answer.read()
                if not self.keeps:
                    self.close()
                return answer, content
            except (http.client.HTTPException, ConnectionError):
                self.close()

    def close(self):
        self.connection.close()
        self.connection = None


def work(address, seconds, keeps):
    """Loads the page and its blocks over and over; returns how long each answer took and how often it connected."""
    browser = Browser(address, keeps)
    answer, _ = browser.get("/")
    page = "/" + answer.headers["location"]
    _, body = browser.get(page)
    names = [f"run0.{kind}.{layer}" for kind in ("groups", "components", "spectra") for layer in range(20)]
    paths = [page] + [path for path in (f"{page}block/{name}" for name in names) if browser.get(path)[0].status == 200]
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for path in paths:
            begin = time.monotonic()
            answer, content = browser.get(path)
            times.append(1000 * (time.monotonic() - begin))
            if answer.status != 200 or (path == page and content != body):
                raise SystemExit(f"{path}: {answer.status}")
    return times, browser.opened


async def slow_client(address, kind, counts):
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as connection:
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, address)
                counts["connected"] += 1
                if kind == 2:
                    await loop.sock_sendall(connection, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    location = re.search(rb"location: (\S+)", await loop.sock_recv(connection, 4096))
                    request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % location[1]
                    await loop.sock_sendall(connection, request * 100)
                while True:
                    if kind == 1:
                        await loop.sock_sendall(connection, b"G")
                    elif not await loop.sock_recv(connection, 1):
                        break
                    await asyncio.sleep(1)
            except (OSError, TypeError):
                pass
        await asyncio.sleep(1)


def slow_clients(address, count, total):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], max(limit[0], count + 100)), limit[1]))

    async def all_of_them():
        counts = {"connected": 0}
        clients = [asyncio.ensure_future(slow_client(address, number % 3, counts)) for number in range(count)]
        while True:
            await asyncio.sleep(0.5)
            total.value = counts["connected"]
            assert not any(client.done() for client in clients)

    asyncio.run(all_of_them())


def told(name, times, opened):
    times = sorted(times)
    ninety_nine = times[int(0.99 * (len(times) - 1))]
    median = statistics.median(times)
    print(f"{name}: {len(times)} answers, median {median:.1f} ms, 99 % {ninety_nine:.1f} ms, worst {times[-1]:.0f} ms, {opened} opened")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--program", default="target/release/layerscope")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    server = subprocess.Popen([given.program, "serve", *given.runs, "--port", "0"], stdout=subprocess.PIPE, text=True)
    load = None
    try:
        host, port = re.match(r"http://([^:/]+):(\d+)/", server.stdout.readline()).groups()
        address = (host, int(port))

        def measure(name):
            for keeps, how in [(True, "one connection"), (False, "a connection for every answer")]:
                told(f"{name}, {how}", *work(address, given.seconds / 2, keeps))

        measure("alone")
        total = multiprocessing.Value("l")
        load = multiprocessing.Process(target=slow_clients, args=(address, given.clients, total), daemon=True)
        load.start()
        while total.value < given.clients:
            time.sleep(0.1)
        measure(f"beside {given.clients} slow clients")
        print(f"the slow clients connected {total.value} times")
        with open(f"/proc/{server.pid}/status") as status:
            peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])
        print(f"the server's memory at its peak: {peak // 1024} MiB")
    finally:
        if load:
            load.terminate()
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
