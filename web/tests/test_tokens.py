"""The view of tokens: what it says of a point is what the tables say."""

import math
import re
import statistics
import unittest
from xml.etree import ElementTree

from pages import PageTest, ordinary_least_squares, table


def numbers(rows, column):
    return [float(row[column]) for row in rows]


class Tokens(PageTest):
    def place(self, page, m, v):
        """Where a group lies on the screen, from the labels of the axes alone."""
        ticks = page.evaluate(
            """() => { const svg = document.querySelector('.stage.scatter svg'); const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('g > text')].map(t => { const b = t.getBoundingClientRect();
              return {text: t.textContent, anchor: t.getAttribute('text-anchor'), x: b.left + b.width / 2, y: b.top + b.height / 2}; })
              .filter(t => /^−?[\\d,.]+$/.test(t.text)); }"""
        )
        value = lambda tick: float(tick["text"].replace("−", "-").replace(",", ""))
        xs = [(value(tick), tick["x"]) for tick in ticks if tick["anchor"] == "middle"]
        ys = [(value(tick), tick["y"]) for tick in ticks if tick["anchor"] == "end"]
        line = lambda at, pairs: pairs[0][1] + (at - pairs[0][0]) * (pairs[-1][1] - pairs[0][1]) / (pairs[-1][0] - pairs[0][0])
        return line(m, xs), line(v, ys)

    def test_hover_reads_the_group_that_lies_there(self):
        page = self.open("two", "tokens?run=0&at=6")
        rows = [row for row in table("two-0", "groups", layer=6) if 10 <= int(row["n"]) <= 100_000]
        far = lambda row: min(math.hypot((float(row["m"]) - float(o["m"])) / 3, (float(row["v"]) - float(o["v"])) / 3) for o in rows if o is not row)
        alone = sorted((row for row in rows if 190 < float(row["m"]) < 310 and 50 < float(row["v"]) < 150), key=far)[-3:]
        for row in alone:
            page.mouse.move(*self.place(page, float(row["m"]), float(row["v"])))
            tip = page.inner_text(".tip").split()
            expected = [row["group"], "n", f"{int(row['n']):,}"]
            for name in "qmv":
                value = float(row[name])
                expected += [name.upper(), f"{value:.1f}" if value >= 100 else f"{value:.4g}"]
            self.assertEqual(tip, expected)
            self.assertTrue(page.inner_text("#main .figure .reading").startswith(row["group"] + ": n "))

    def test_slider_and_keyboard_move_through_the_layers(self):
        page = self.open("two", "tokens?run=1&at=0")
        slider = page.locator(".slider input")
        slider.focus()
        for key, layer, point in [("ArrowRight", 1, "block"), ("ArrowRight", 2, "block"), ("End", 12, "final_norm"), ("ArrowLeft", 12, "block")]:
            page.keyboard.press(key)
            self.settle(page)
            found = self.regression(page)
            of = lambda measure: float(table("two-1", "layers", layer=layer, point=point, selection="selected", measure=measure)[0]["value"])
            self.assertNear(found["slope"], of("slope_v_on_m"), 1)
            self.assertNear(found["r2"], of("r2_v_on_m"), 1)
            self.assertNear(found["intercept"], of("intercept_v_on_m"), abs(of("intercept_v_on_m")))
        self.assertEqual(page.inner_text(".slider output"), "layer 12")
        self.assertEqual(slider.get_attribute("aria-valuetext"), "layer 12")
        self.assertIn("at=12", page.url)

    def test_the_filter_changes_the_regression_to_that_of_the_tables(self):
        page = self.open("two", "tokens?run=0&at=4")
        for low, high in [(1, 1_000_000), (25, 400), (60, 61)]:
            page.fill('label:text-is("Fewest") + input', str(low))
            page.fill('label:text-is("Most") + input', str(high))
            self.settle(page)
            rows = [row for row in table("two-0", "groups", layer=4) if low <= int(row["n"]) <= high]
            if len(rows) < 3:
                self.assertIn("fewer than three groups", page.inner_text(".fit"))
                continue
            x, y = numbers(rows, "m"), numbers(rows, "v")
            slope, intercept, r2 = ordinary_least_squares(x, y)
            found = self.regression(page)
            self.assertEqual(found["groups"], len(rows))
            self.assertNear(found["slope"], slope, statistics.pstdev(y) / statistics.pstdev(x))
            self.assertNear(found["intercept"], intercept, abs(intercept))
            self.assertNear(found["r2"], r2, 1)
        page.click('button:has-text("Back to the run")')
        self.settle(page)
        self.assertNear(self.regression(page)["slope"], float(table("two-0", "layers", layer=4, selection="selected", measure="slope_v_on_m")[0]["value"]), 1)

    def test_other_axes_have_their_own_line(self):
        page = self.open("two", "tokens?run=1&at=7&min=12&max=5000")
        rows = [row for row in table("two-1", "groups", layer=7) if 12 <= int(row["n"]) <= 5000]
        x = [math.log10(n) for n in numbers(rows, "n")]
        for label, column, change in [("Q against log₁₀ n", "q", float), ("log₁₀(1 + V) against log₁₀ n", "v", lambda v: math.log10(1 + v))]:
            page.select_option('label:text-is("Plot") + select', label=label)
            self.settle(page)
            y = [change(value) for value in numbers(rows, column)]
            slope, intercept, r2 = ordinary_least_squares(x, y)
            found = self.regression(page)
            self.assertNear(found["slope"], slope, statistics.pstdev(y) / statistics.pstdev(x))
            self.assertNear(found["intercept"], intercept, abs(intercept))
            self.assertNear(found["r2"], r2, 1)

    def test_every_layer_has_the_line_of_the_filter(self):
        page = self.open("two", "tokens?run=0&at=4&min=30&max=3000")
        self.settle(page)
        page.wait_for_selector("#figure-slope-encoder-small svg path")
        rows = self.csv(page, page.locator("#figure-slope-encoder-small button:text-is('CSV')"))
        self.assertEqual(len(rows), 13)
        for row in rows:
            groups = [own for own in table("two-0", "groups", layer=row["layer"]) if 30 <= int(own["n"]) <= 3000]
            slope, intercept, r2 = ordinary_least_squares(numbers(groups, "m"), numbers(groups, "v"))
            self.assertNear(float(row["slope"]), slope, 10)
            self.assertNear(float(row["r2"]), r2, 1)

    def test_a_token_is_found_and_followed(self):
        page = self.open("two", "tokens?run=0&at=6")
        page.fill('[role="combobox"]', "wink")
        self.assertEqual(page.inner_text('[role="option"][aria-selected="true"] span'), "winked")
        page.keyboard.press("Enter")
        self.assertEqual(page.locator(".pins tbody tr").count(), 1)
        page.wait_for_selector("#figure-tracks-v-encoder-small svg")
        rows = self.csv(page, page.locator("#figure-tracks-v-encoder-small button:text-is('CSV')"))
        own = table("two-0", "groups", group="winked")
        self.assertEqual([(row["layer"], row["point"], float(row["v"])) for row in rows], [(row["layer"], row["point"], float(row["v"])) for row in own])
        self.assertIn(f"pin={own[0]['group_id']}", page.url)
        page.fill('[role="combobox"]', "no such token")
        self.assertEqual(page.inner_text(".search li"), "No such token in this run")

    def test_groups_are_chosen_by_drawing_around_them(self):
        page = self.open("two", "tokens?run=0&at=6")
        box = page.locator(".stage.scatter").bounding_box()
        corners = [(0.3, 0.2), (0.6, 0.2), (0.6, 0.6), (0.3, 0.6), (0.3, 0.2)]
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.2)
        page.mouse.down()
        for x, y in corners:
            page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y, steps=4)
        page.mouse.up()
        chosen = int(re.match(r"([\d,]+) groups chosen", page.inner_text(".chosen")).group(1).replace(",", ""))
        self.assertGreater(chosen, 20)
        page.click('.chosen button:has-text("most frequent")')
        self.assertEqual(page.locator(".pins tbody tr").count(), 12)
        page.click('button:text-is("Unpin all")')
        self.assertEqual(page.locator(".pins").count(), 0)

    def test_downloads_hold_what_is_shown(self):
        page = self.open("two", "tokens?run=0&at=6")
        figure = page.locator("#figure-variance-on-mean-encoder-small")
        rows = self.csv(page, figure.locator("button:text-is('CSV')"))
        expected = [row for row in table("two-0", "groups", layer=6) if 10 <= int(row["n"]) <= 100_000]
        key = lambda row: (int(row["group_id"]), float(row["q"]), float(row["m"]), float(row["v"]), float(row["self_similarity"] or "nan"))
        self.assertEqual(sorted(map(key, rows)), sorted(map(key, expected)))
        svg, name = self.download(page, figure.locator("button:text-is('SVG')"))
        self.assertTrue(name.endswith(".svg"))
        root = ElementTree.fromstring(svg)
        image = root.find("{http://www.w3.org/2000/svg}image")
        self.assertTrue(image.get("href").startswith("data:image/png;base64,"))
        self.assertIn("slope −", "".join(root.itertext()))
        png, name = self.download(page, figure.locator("button:text-is('PNG')"))
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(int.from_bytes(png[16:20], "big"), 3 * int(root.get("width")))

    def test_the_keyboard_is_enough(self):
        page = self.open("two")
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to the figures")
        for _ in range(5):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Tokens":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector(".fit b")
        self.assertEqual(page.evaluate("document.activeElement.tagName"), "H2")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('scatter')"):
                break
        self.assertNotEqual(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none")
        rows = sorted((row for row in table("two-0", "groups", layer=6) if 10 <= int(row["n"]) <= 100_000), key=lambda row: float(row["m"]))
        page.keyboard.press("ArrowRight")
        middle = len(rows) // 2
        self.assertEqual(page.inner_text(".tip strong"), rows[middle]["group"])
        page.keyboard.press("ArrowRight")
        self.assertEqual(page.inner_text(".tip strong"), rows[middle + 1]["group"])
        page.keyboard.press("Enter")
        self.assertIn(rows[middle + 1]["group"], page.inner_text(".pins"))
        page.keyboard.press("Escape")
        self.assertTrue(page.locator(".tip").is_hidden())


if __name__ == "__main__":
    unittest.main()
