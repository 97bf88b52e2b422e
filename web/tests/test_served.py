"""The same page from `layerscope serve`: layers come when they are looked at, and nothing comes from anywhere else."""

import math
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

import test_tokens
from pages import FOLDER, VIEWS, PageTest, table

PROGRAM = os.environ.get("LAYERSCOPE_PROGRAM", str(Path(__file__).parents[2] / "target/release/layerscope"))
FITTED = "expected => { const own = document.querySelector('.fit [data-name=slope]'); return own && Math.abs(Number(own.dataset.value) - expected) <= 1e-10; }"


class ServedTest(PageTest):
    """Tests of a server of some runs."""

    @classmethod
    def runs(cls):
        return [FOLDER / "two-0", FOLDER / "two-1"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs = [str(run) for run in cls.runs()]
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
        page.on("dialog", lambda dialog: (self.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.headers = page.goto(f"{self.address}#{address}").headers
        page.wait_for_selector("html[data-ready]")
        return page

    def go(self, page, view):
        """Shows another view of the same page."""
        page.evaluate("view => { location.hash = view; }", view)
        page.wait_for_selector(f'main[data-view="{view.split("?")[0]}"]')


class WithoutCosines(ServedTest):
    """A run of norms alone offers nothing that it does not have."""

    @classmethod
    def runs(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run = Path(cls.folder.name) / "norms"
        corpus = Path(__file__).parents[2] / "pocket/corpus/held-out.txt"
        words = ["measure", "--model", "pocket-bert", "--corpus", str(corpus), "--limit", "40", "--measures", "norm", "--quiet", "--out", str(run)]
        subprocess.run([PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)
        return [run]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_components_begin_with_the_second_moment(self):
        page = self.visit("components?at=3&column=cosine_contribution")
        self.settle(page)
        shown = page.locator('label:text-is("Show") + select')
        self.assertEqual(shown.input_value(), "second_moment")
        self.assertNotIn("cosine", shown.inner_text())
        self.assertGreater(page.locator("main tbody tr").count(), 5)


class Served(ServedTest):
    def slope(self, layer):
        return float(table("two-0", "layers", layer=layer, selection="selected", measure="slope_v_on_m")[0]["value"])

    def blocks(self, kind):
        """Blocks that were asked for, in order."""
        return [url.rsplit("/block/", 1)[1] for url in self.asked if f"/block/{kind}." in url]

    def test_layers_come_when_they_are_looked_at(self):
        page = self.visit("tokens?run=0&at=0")
        page.wait_for_function(FITTED, arg=self.slope(0))
        self.assertEqual(self.blocks("run0.groups")[0], "run0.groups.0", "others come when there is time")
        page.locator(".slider input").focus()
        for layer in range(1, 7):
            page.keyboard.press("ArrowRight")
            page.wait_for_function(FITTED, arg=self.slope(layer))
            self.assertEqual(page.inner_text(".slider output"), f"layer {layer}")
            self.assertIn(f"run0.groups.{layer}", self.blocks("run0.groups"))
        self.assertEqual(self.blocks("run1.groups"), [], "nobody looked at the other run's tokens")
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


class ServedStates(ServedTest):
    """The typical states come when they are looked at, as what differs from all states."""

    @classmethod
    def runs(cls):
        return [FOLDER / "sinks-0"]

    def slope(self, selection):
        return float(table("sinks-0", "layers", layer=6, selection=selection, measure="slope_v_on_m")[0]["value"])

    def test_the_switch_asks_for_the_other_states(self):
        page = self.visit("tokens?at=6&states=all")
        page.wait_for_function(FITTED, arg=self.slope("selected"))
        self.assertEqual([url for url in self.asked if url.endswith(".typical") and "groups" in url], [])
        page.click('.states label:text-is("Typical")')
        page.wait_for_function(FITTED, arg=self.slope("typical_selected"))
        self.assertTrue(any(url.endswith("/block/run0.groups.6.typical") for url in self.asked))
        self.go(page, "components?at=6&token=1020")
        page.wait_for_selector("#token-components svg")
        self.assertTrue(any(url.endswith("/block/run0.token_components.6.typical") for url in self.asked))
        self.go(page, "massive?at=6")
        page.wait_for_selector("#who tbody tr")
        self.assertTrue(any("/block/run0.massive." in url for url in self.asked))


class ServedHostile(ServedTest):
    @classmethod
    def runs(cls):
        return [FOLDER / "hostile-0"]

    def test_no_token_is_more_than_text(self):
        pins = ",".join(str(1000 + i) for i in range(4, 16))  # one of 10,000 characters among them
        for view in VIEWS:
            page = self.visit(f"{view}?min=1&pin={pins}")
            self.assertTrue(self.headers["content-security-policy"].startswith("default-src 'none'; connect-src 'self'; script-src 'sha256-"))
            self.settle(page)
            page.wait_for_load_state("networkidle")
            self.assertIsNone(page.evaluate("window.injected"))
            self.assertEqual(page.locator("img, [onerror], [onmouseover]").count(), 0)
            self.assertEqual(page.locator("script:not([type])").count(), 1)
            text = page.inner_text("body")
            self.assertFalse(any(character in text for character in "\u202e\u2028\u2067\0\u0007\u001b\ufeff"), view)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 1440, view)
            self.assertEqual([url for url in self.asked if not url.startswith(page.evaluate("location.origin"))], [])

    def test_hostile_names_are_found_and_saved(self):
        page = self.visit("tokens?min=1&at=2")
        page.wait_for_selector(".fit b, .fit p")
        for name in ["</script>", "onmouseover", "xxxxxxxx"]:
            page.fill('[role="combobox"]', name)
            page.keyboard.press("Enter")
            self.assertIn(name, page.inner_text(".pins"))
        self.go(page, "tables?table=groups&at=2")
        page.wait_for_selector(".data tbody tr")
        for shown in ["</script><script>window.injected=1</script>", "\\u{2067}isolate\\u{1b}[31m", '" onmouseover="window.injected=1']:
            self.assertIn(shown, page.inner_text("main"))
        names = [row["group"] for row in self.csv(page, page.locator("button:text-is('Download CSV')"))]
        self.assertEqual(sorted(names), sorted(row["group"] for row in table("hostile-0", "groups", layer=2)))
        self.assertIsNone(page.evaluate("window.injected"))


class ServedChanged(ServedTest):
    @classmethod
    def runs(cls):
        cls.folder = Path(tempfile.mkdtemp(dir=FOLDER)) / "run"
        shutil.copytree(FOLDER / "two-0", cls.folder)
        return [cls.folder]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder.parent)

    def test_a_page_of_a_run_that_changed_says_so(self):
        page = self.visit("overview")
        page.wait_for_load_state("networkidle")
        for second in range(1, 5):  # a server keeps what four versions of a page ask for
            os.utime(self.folder / "groups.parquet", (second, second))
            urllib.request.urlopen(self.address).close()
        self.go(page, "spectrum")
        page.wait_for_function("() => document.querySelector('[role=alert]').textContent.startsWith('The run changed on disk: load the page again.')")
        self.assertTrue(self.trouble and all("410" in line for line in self.trouble), self.trouble)
        self.trouble.clear()
        page.click(".trouble button")
        page.wait_for_selector('main[data-view="spectrum"] svg')
        self.assertEqual(page.inner_text(".trouble"), "")

    def test_a_server_that_does_not_answer_is_missed_until_it_does(self):
        page = self.visit("overview")
        page.wait_for_load_state("networkidle")
        page.context.set_offline(True)
        self.go(page, "spectrum")
        page.wait_for_function("() => document.querySelector('[role=alert]').textContent.startsWith('The server does not answer')")
        self.assertTrue(self.trouble and all("ERR_INTERNET_DISCONNECTED" in line for line in self.trouble), self.trouble)
        self.trouble.clear()
        page.context.set_offline(False)
        self.go(page, "overview")
        self.go(page, "spectrum")
        page.wait_for_selector('main[data-view="spectrum"] svg path')
        self.assertEqual(page.inner_text(".trouble"), "")


if __name__ == "__main__":
    unittest.main()
