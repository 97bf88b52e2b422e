"""What must fit its place: names, choices, columns and ticks, on a wide screen and on a phone."""

import unittest

from pages import PageTest, table

# The width of a choice, and the width it would have if nothing held it back.
WIDTHS = """selects => selects.map(own => {
  const here = own.getBoundingClientRect().width;
  own.style.maxWidth = 'none'; own.style.width = 'max-content';
  const wanted = own.getBoundingClientRect().width;
  own.style.maxWidth = ''; own.style.width = '';
  return [here, wanted];
})"""
TICKS = 'svg text[text-anchor="end"][x="-8"]'
# The texts of a drawing that leave its paper.
OUTSIDE = """figures => figures.flatMap(figure => [...figure.querySelectorAll('svg text')].filter(text => {
  const [own, paper] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return own.left < paper.left - 1 || own.right > paper.right + 1;
}).map(text => `${figure.id}: ${text.textContent}`))"""


class Room(PageTest):
    def test_choices_show_all_their_words(self):
        for width in [1440, 390]:
            for address in ["profiles?measure=slope_v_on_m", "profiles?measure=anisotropy_svd", "profiles?measure=slope_v_on_m&states=all"]:
                page = self.open("sinks", address, width=width)
                widths = page.locator("main .controls select").evaluate_all(WIDTHS)
                self.assertGreaterEqual(len(widths), 2)
                for here, wanted in widths:
                    self.assertLessEqual(wanted, here + 1, f"{address} at {width}")

    def test_a_choice_says_what_it_is_over(self):
        for states, words in [("typical", "groups in range, no massive states"), ("all", "groups in range")]:
            page = self.open("sinks", f"profiles?measure=slope_v_on_m&states={states}")
            self.assertEqual(page.locator('label:text-is("Over") + select option:checked').inner_text(), words)

    def test_three_runs_fit_beside_the_checks(self):
        page = self.open("three")
        region = page.locator('[aria-label="Facts of the runs"]')
        self.assertEqual(region.locator("thead th").count(), 3)
        self.assertEqual(region.evaluate("own => own.scrollWidth - own.clientWidth"), 0)
        self.assertEqual(region.locator("thead th").first.inner_text().strip(), "all_small_encoder_l6_v2 (corpus2000)")

    def test_what_is_said_of_massive_states_does_not_scroll_away(self):
        page = self.open("sinks", "massive?run=0&at=6", width=390, height=844)
        page.wait_for_selector("#who tbody tr")
        said = page.locator("#who > .note")
        self.assertIn("massive states at layer 6", said.inner_text())
        box = said.bounding_box()
        self.assertLessEqual(box["x"] + box["width"], 390)
        self.assertEqual(said.evaluate("own => own.scrollWidth - own.clientWidth"), 0)

    def test_a_phone_shows_what_tells_rows_apart(self):
        page = self.open("sinks", "tables?run=0&table=layers&states=all", width=390, height=844)
        page.wait_for_selector(".data tbody tr")
        region = page.locator('[aria-label="Table"]')
        edge = region.evaluate("own => own.getBoundingClientRect().right")
        heads = [head.split() for head in region.locator("thead th").all_inner_texts()]
        self.assertEqual(heads[:3], [["value"], ["measure", "selection", "variant"], ["layer", "point"]])
        rows = region.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].slice(0, 3).map(cell => [cell.innerText, cell.title, cell.getBoundingClientRect().right]))")
        self.assertEqual(len({(row[1][0], row[2][0]) for row in rows}), len(rows), "two rows look alike")
        for value, name, place in rows:
            self.assertLessEqual(place[2], edge, "it is out of sight")
            measure, below = name[0].split("\n")
            selection, variant = (below.split(", ") + [""])[:2]
            layer, point = place[0].split("\n")
            own = table("sinks-0", "layers", measure=measure, selection=selection, variant=variant, layer=layer, point=point)
            self.assertEqual([row["value"] and float(row["value"]) for row in own], [value[1] and float(value[1])])
        page.click('.sort[data-name="variant"]')
        self.assertEqual(page.locator('th[aria-sort="ascending"] .sort').all_inner_texts()[2].strip(), "variant ▴")

    def test_counts_have_whole_ticks(self):
        page = self.open("few", "overview")
        figure = page.locator("#figure-sentence-lengths-encoder-few")
        figure.locator("svg").wait_for()
        self.assertEqual(figure.locator(TICKS).all_text_contents(), ["1", "2"], "one or two sentences of each length")
        page = self.open("few", "tokens?run=0&min=1")
        for column in ["q", "m", "v", "log_n"]:
            figure = page.locator(f"#figure-histogram-{column}-encoder-few")
            figure.locator("svg").wait_for()
            ticks = figure.locator(TICKS).all_text_contents()
            most = max(int(row["groups"]) for row in self.csv(page, figure.locator("button:text-is('CSV')")))
            self.assertLess(most, 10)
            self.assertTrue(all(tick.isdigit() for tick in ticks), f"{column}: {ticks}")
            self.assertIn("1" if column == "log_n" else "0", ticks)

    def test_an_axis_has_all_layers(self):
        page = self.open("sinks", "massive?run=0")
        self.assertEqual(table("sinks-0", "layers", measure="r2_v_on_m", selection="selected", layer=0)[0]["value"], "", "it is undefined there")
        places = lambda measure: page.locator(f"#figure-hidden-{measure}-decoder-sinks svg g > text[text-anchor=middle]").evaluate_all("all => all.map(own => [own.textContent, own.getAttribute('x')])")
        page.wait_for_selector("#figure-hidden-r2_v_on_m-decoder-sinks svg")
        for label, x in places("r2_v_on_m"):
            self.assertGreaterEqual(float(x), 0, f"layer {label} is left of its axis")

    def test_no_text_leaves_its_drawing(self):
        for width in [1440, 1024, 390, 360]:
            for name, view in [("steps", "training"), ("sinks", "massive"), ("two", "tokens"), ("few", "overview")]:
                page = self.open(name, view, width=width)
                self.settle(page)
                self.assertGreater(page.locator("main .figure svg").count(), 0)
                self.assertEqual(page.locator("main .figure").evaluate_all(OUTSIDE), [], f"{name}, {view} at {width}")


if __name__ == "__main__":
    unittest.main()
