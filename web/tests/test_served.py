"""The same page from `layerscope serve`: layers come when they are looked at, and nothing comes from anywhere else."""

import math
import os
import signal
import subprocess
import unittest
from pathlib import Path

import test_tokens
from pages import FOLDER, PageTest, table

PROGRAM = os.environ.get("LAYERSCOPE_PROGRAM", str(Path(__file__).parents[2] / "target/release/layerscope"))
FITTED = "expected => { const own = document.querySelector('.fit [data-name=slope]'); return own && Math.abs(Number(own.dataset.value) - expected) <= 1e-10; }"


class Served(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs = [str(FOLDER / "two-0"), str(FOLDER / "two-1")]
        cls.server = subprocess.Popen([PROGRAM, "serve", *runs, "--port", "0"], stdout=subprocess.PIPE, text=True)
        cls.address = cls.server.stdout.readline().split()[0]

    @classmethod
    def tearDownClass(cls):
        cls.server.send_signal(signal.SIGINT)
        cls.server.stdout.close()
        status = cls.server.wait()
        super().tearDownClass()
        assert status == 0, status

    def visit(self, address):
        """Opens the served page; every request is written down."""
        context = self.browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
        self.contexts.append(context)
        page = context.new_page()
        self.asked = []
        page.on("console", lambda message: self.trouble.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url) if not request.url.startswith(("data:", "blob:")) else None)
        page.goto(f"{self.address}#{address}")
        page.wait_for_selector("html[data-ready]")
        return page

    def slope(self, layer):
        return float(table("two-0", "layers", layer=layer, selection="selected", measure="slope_v_on_m")[0]["value"])

    def blocks(self, kind):
        return {url.rsplit("/block/", 1)[1] for url in self.asked if f"/block/{kind}." in url}

    def test_layers_come_when_they_are_looked_at(self):
        page = self.visit("tokens?run=0&at=0")
        page.wait_for_function(FITTED, arg=self.slope(0))
        before = self.blocks("run0.groups")
        self.assertIn("run0.groups.0", before)
        self.assertNotIn("run0.groups.6", before)
        page.locator(".slider input").focus()
        for layer in range(1, 7):
            page.keyboard.press("ArrowRight")
            page.wait_for_function(FITTED, arg=self.slope(layer))
            self.assertEqual(page.inner_text(".slider output"), f"layer {layer}")
            self.assertIn(f"run0.groups.{layer}", self.blocks("run0.groups"))
        self.assertEqual(self.blocks("run1.groups"), set(), "nobody looked at the other run's tokens")
        rows = [row for row in table("two-0", "groups", layer=6) if 10 <= int(row["n"]) <= 100_000]
        far = lambda row: min(math.hypot(float(row["m"]) - float(other["m"]), float(row["v"]) - float(other["v"])) for other in rows if other is not row)
        inside = [row for row in rows if 190 < float(row["m"]) < 310 and 50 < float(row["v"]) < 150]
        alone = max(inside, key=far)
        page.mouse.move(*test_tokens.Tokens.place(self, page, float(alone["m"]), float(alone["v"])))
        self.assertEqual(page.inner_text(".tip strong"), alone["group"])
        own = page.evaluate("location.origin")
        self.assertEqual([url for url in self.asked if not url.startswith(own)], [])

    def test_every_view_works_over_the_server(self):
        page = self.visit("overview")
        for view in ["spectrum", "components", "pca", "tables?run=1&table=groups&at=5"]:
            page.goto(page.url.split("#")[0] + f"#{view}")
            name = view.split("?")[0]
            page.wait_for_selector(f'main[data-view="{name}"] svg, main[data-view="{name}"] table tbody tr')
        expected = {row["group"] for row in table("two-1", "groups", layer=5)}
        column = page.locator(".data thead th").all_inner_texts()
        at = next(i for i, heading in enumerate(column) if heading.split()[0] == "group")
        self.assertIn(page.locator(".data tbody tr >> nth=0").locator("td").nth(at).inner_text(), expected)

    def test_the_policy_forbids_every_other_server(self):
        page = self.visit("overview")
        refused = page.evaluate("() => fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
        self.assertEqual(refused, "refused")
        self.assertTrue(all("Content Security Policy" in line or "violates" in line for line in self.trouble), self.trouble)
        self.trouble.clear()


if __name__ == "__main__":
    unittest.main()
