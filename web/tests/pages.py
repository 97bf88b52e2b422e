"""Pages in a browser, and the tables they were made of."""

import csv
import math
import os
import unittest
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(os.environ.get("LAYERSCOPE_PAGES", "target/page")).resolve()
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
VIEWS = ["overview", "tokens", "profiles", "training", "spectrum", "components", "massive", "pca", "embeddings", "tables", "method"]


class PageTest(unittest.TestCase):
    """Opens pages from disk and fails on any complaint of the browser or any request but the page itself."""

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def setUp(self):
        self.trouble = []
        self.contexts = []

    def tearDown(self):
        for context in self.contexts:
            context.close()
        self.assertEqual(self.trouble, [])

    def open(self, name, address="", width=1440, height=1000, dark=False):
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True, offline=True
        )
        self.contexts.append(context)
        page = context.new_page()
        own = (FOLDER / f"{name}.html").as_uri()
        page.on("console", lambda message: self.trouble.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (self.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.trouble.append(f"request {request.url[:80]}") if not allowed(request.url, own) else None)
        page.goto(f"{own}#{address}")
        page.wait_for_selector("html[data-ready]")
        if address.startswith("tokens"):
            page.wait_for_selector(".fit b, .fit p")
        return page

    def settle(self, page):
        """Lets everything that was asked for be drawn."""
        page.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 60))")

    def regression(self, page):
        names = ["slope", "r2", "intercept", "groups"]
        return {name: float(page.get_attribute(f'.fit [data-name="{name}"]', "data-value")) for name in names}

    def download(self, page, button):
        with page.expect_download() as download:
            button.click()
        return Path(download.value.path()).read_bytes(), download.value.suggested_filename

    def csv(self, page, button):
        text, name = self.download(page, button)
        self.assertTrue(name.endswith(".csv"), name)
        return list(csv.DictReader(text.decode("utf-8").splitlines()))

    def assertNear(self, found, expected, scale):
        self.assertLessEqual(abs(found - expected), 1e-10 * scale, f"{found} is not {expected}")


def allowed(url, own):
    return url.split("#")[0] == own or url.startswith(("data:", "blob:"))


def table(run, name, **where):
    """Rows of a table of a run, as text; every number has all its digits."""
    with open(FOLDER / run / f"{name}.csv", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == str(value) for key, value in where.items())]


def ordinary_least_squares(x, y):
    """Slope, intercept and R^2 by the definition, with exact sums."""
    n = len(x)
    mean_x, mean_y = math.fsum(x) / n, math.fsum(y) / n
    xx = math.fsum((a - mean_x) ** 2 for a in x)
    xy = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    slope = xy / xx
    intercept = mean_y - slope * mean_x
    residual = math.fsum((b - intercept - slope * a) ** 2 for a, b in zip(x, y))
    return slope, intercept, 1 - residual / math.fsum((b - mean_y) ** 2 for b in y)


def contrast(one, other):
    """The ratio of WCAG 2."""

    def luminance(colour):
        parts = [int(colour.strip()[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)
