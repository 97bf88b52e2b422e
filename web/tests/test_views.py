"""The other views: every number is a number of the tables; and what holds for all of them."""

import unittest

from pages import VIEWS, PageTest, contrast, table


class Views(PageTest):
    def test_every_view_of_every_page_opens_from_disk_in_silence(self):
        for name in ["two", "steps", "words", "hostile", "sinks", "old", "trained"]:
            page = self.open(name)
            for view in VIEWS:
                page.click(f"nav a >> nth={VIEWS.index(view)}")
                page.wait_for_selector(f'main[data-view="{view}"] h2')
                self.settle(page)
                absent = page.locator("main > .absent").count()
                drawn = page.locator("main svg, main table").count()
                self.assertTrue(absent == 1 or drawn > 0, f"{name}: {view} is empty")
            self.assertEqual(page.locator("nav a").count(), len(VIEWS))

    def test_the_network_is_forbidden(self):
        page = self.open("two")
        policy = page.get_attribute('meta[http-equiv="Content-Security-Policy"]', "content")
        self.assertTrue(policy.startswith("default-src 'none'; script-src 'sha256-"))
        self.assertNotIn("unsafe", policy)
        refused = page.evaluate("() => fetch('https://example.org/').then(() => 'sent', () => 'refused')")
        self.assertEqual(refused, "refused")
        added = page.evaluate("() => { const s = document.createElement('script'); s.textContent = 'window.added = 1'; document.body.append(s); return window.added; }")
        self.assertIsNone(added)
        complaints = " ".join(self.trouble)
        self.assertEqual(complaints.count("Content Security Policy"), len(self.trouble))
        self.trouble.clear()

    def test_the_overview_says_what_the_tables_say(self):
        page = self.open("two")
        page.wait_for_selector(".card a")
        best = max(table("two-0", "layers", selection="selected", measure="r2_v_on_m"), key=lambda row: float(row["value"]))
        slope = table("two-0", "layers", selection="selected", measure="slope_v_on_m", layer=best["layer"])[0]
        found = page.inner_text('.card:has(h3 .term:text-is("Strongest trade-off")) li >> nth=0')
        self.assertEqual(found, f"encoder-small R² {float(best['value']):.3f}, slope −{abs(float(slope['value'])):.3f} at layer {best['layer']}")
        peak = max(table("two-1", "layers", measure="anisotropy_svd", variant="corpus"), key=lambda row: float(row["value"]))
        found = page.inner_text('.card:has(h3 .term:text-is("Anisotropy")) li >> nth=1')
        self.assertIn(f"peaks at {float(peak['value']):.3f}, layer {peak['layer']}", found)
        self.assertIn("up to 212 of 100,000 states", page.inner_text('.card:has(h3 .term:text-is("Massive activations"))'))
        rogue = {}
        for row in table("two-0", "components"):
            rogue.setdefault((row["layer"], row["point"]), []).append((float(row["cosine_contribution"]), row["component"]))
        shares = [(max(own)[0] / sum(value for value, _ in own), max(own)[1], layer) for (layer, _), own in rogue.items()]
        share, component, layer = max(shares)
        found = page.inner_text('.card:has(h3:text-is("Rogue dimensions")) li >> nth=0')
        self.assertIn(f"component {component} carries {100 * share:.1f}\u00a0% of the mean cosine at layer {layer}", found)
        self.assertIn("the largest residual is 4.0e−15", page.inner_text("main"))
        self.assertIn("documents were longer than the model's window", page.inner_text("main"))
        self.assertIn("'runs/it'\\''s here'", page.inner_text("main"))
        page.click('.card:has(h3 .term:text-is("Strongest trade-off")) a >> nth=0')
        page.wait_for_selector(".fit b")
        self.assertEqual(page.inner_text(".slider output"), f"layer {best['layer']}")

    def test_profiles_are_the_rows_of_the_table(self):
        page = self.open("two", "profiles?measure=mean_cosine")
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("two-0", "layers", measure="mean_cosine", selection="all") + table("two-1", "layers", measure="mean_cosine", selection="all")
        key = lambda row: (row["model"], row["layer"], row["point"], float(row["value"]), float(row["se"]), int(row["n"]))
        self.assertEqual(sorted(map(key, rows)), sorted(key(row) for row in expected if row["layer"]))
        page.click('label:text-is("Relative")')
        self.assertIn("relative depth", page.text_content("main .figure >> nth=0 >> svg"))
        page.click('label:text-is("Log")')
        self.assertIn("scale=log", page.url)
        page.select_option('label:text-is("Measure") + select', "slope_v_on_m")
        self.assertIn("not positive", page.inner_text("main .figure .note >> nth=0"))
        page.click('.thumb:has-text("IsoScore")')
        self.assertEqual(page.inner_text("main .figure h3 >> nth=0"), "IsoScore")

    def test_a_tab_can_be_named_by_what_stands_on_it(self):
        page = self.open("two")
        for view, title in zip(VIEWS, page.locator("nav a").all_inner_texts()):
            for address in [view, title, title.lower()]:
                page.goto(page.url.split("#")[0] + f"#{address}")
                page.wait_for_selector(f'main[data-view="{view}"]')
                self.assertEqual(page.inner_text('nav a[aria-current="page"]'), title)
        page.goto(page.url.split("#")[0] + "#nowhere")
        page.wait_for_selector('main[data-view="overview"]')
        self.assertEqual(page.inner_text('nav a[aria-current="page"]'), "Overview")

    def test_what_runs_differ_in_and_few_groups_are_said(self):
        self.assertEqual(self.open("two").locator(".differences, .few").count(), 0)
        page = self.open("few")
        page.wait_for_selector(".card a")
        self.assertEqual(page.inner_text(".differences"), "The grouping is not the same in all runs.")
        groups = min(int(row["n"]) for row in table("few-0", "layers", selection="selected", measure="slope_v_on_m"))
        self.assertLess(groups, 30)
        self.assertIn(f"Only {groups} groups are selected", page.inner_text(".lede .few"))
        self.assertEqual(page.locator(".lede .few").count(), 1)
        card = page.inner_text('.card:has(h3 .term:text-is("Strongest trade-off"))')
        self.assertIn(f"over only {groups} groups", card)
        self.assertIn("over groups in the run's frequency range", card)
        page.goto(page.url.split("#")[0] + "#layers?measure=slope_v_on_m")
        self.assertIn(f"Dashed: few groups (encoder-few: {groups})", page.inner_text("main .figure .note >> nth=0"))
        self.assertEqual(page.locator("main .figure >> nth=0").locator("svg path[stroke-dasharray]").count(), 1)
        page.select_option('label:text-is("Measure") + select', "mean_cosine")
        self.assertNotIn("few groups", page.inner_text("main .figure >> nth=0"))
        page.goto(page.url.split("#")[0] + "#tokens")
        page.wait_for_selector(".fit b")
        self.assertIn("over only", page.inner_text(".fit"))

    def test_no_trade_off_is_drawn_where_the_slope_is_positive(self):
        page = self.open("few")
        page.wait_for_selector(".card a")
        falling = [row for row in table("few-0", "layers", selection="selected", measure="slope_v_on_m") if float(row["value"]) < 0]
        path = page.get_attribute('.card:has(h3 .term:text-is("Strongest trade-off")) .spark path[fill="none"]', "d")
        self.assertEqual(path.count("M") + path.count("L"), len(falling))
        self.assertLess(len(falling), len(table("few-0", "layers", selection="selected", measure="slope_v_on_m")))

    def test_training_shows_every_step(self):
        page = self.open("steps", "training")
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("steps-0", "layers", measure="anisotropy_svd", variant="corpus")
        key = lambda row: (int(row["step"]), int(row["layer"]), row["point"], float(row["value"]))
        self.assertEqual(sorted(map(key, rows)), sorted(map(key, expected)))
        cells = page.locator("main .figure >> nth=0 >> svg").locator("rect > title").all_text_contents()
        self.assertEqual(sum(1 for cell in cells if cell.startswith("step ")), len(expected))
        after = page.locator("main .figure button:text-is('CSV') >> nth=2")
        last = self.csv(page, after)[-1]
        at = lambda point: float(next(row["value"] for row in expected if row["step"] == "143000" and row["layer"] == "6" and row["point"] == point))
        self.assertEqual((float(last["before the final norm"]), float(last["after it"])), (at("block"), at("final_norm")))
        page.select_option('label:text-is("Measure") + select', "partition")
        self.assertIn("embedding matrices", page.inner_text("main .figure h3 >> nth=0"))
        page.goto(page.url.split("#")[0] + "#overview")
        self.assertIn("step2000 is missing: no such revision", page.inner_text("main"))

    def test_spectra_components_and_projections_are_the_tables(self):
        page = self.open("two", "spectrum?run=1&at=12n")
        self.settle(page)
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("two-1", "spectra")
        key = lambda row: (row["layer"], row["point"], int(row["rank"]), float(row["eigenvalue"]))
        self.assertEqual(sorted(map(key, rows)), sorted(map(key, expected)))
        page = self.open("two", "components?run=0&at=3&column=variance")
        self.settle(page)
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("two-0", "components", layer=3)
        self.assertEqual([float(row["variance"]) for row in rows], [float(row["variance"]) for row in expected])
        top = max(expected, key=lambda row: float(row["variance"]))
        self.assertEqual(page.inner_text("main tbody th >> nth=0"), top["component"])
        page = self.open("two", "pca?run=0&at=3")
        self.settle(page)
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("two-0", "tokens", layer=3)
        self.assertEqual(len(rows), len(expected))
        for row, own in zip(rows, expected):
            self.assertEqual((row["group"], row["role"], row["document"]), (own["group"], own["role"], own["document"]))
            self.assertLessEqual(abs(float(row["x"]) - float(own["x"])), 1e-6 * 40)  # places on paper are f32
        text = page.text_content("main .figure >> nth=0 >> svg")
        self.assertIn("first component (42.0\u00a0% of the variance)", text)
        self.assertIn("second component (13.7\u00a0% of the variance)", text)
        page.click(".chip >> nth=0")
        self.assertEqual(page.locator('.chip[aria-pressed="true"]').count(), 1)

    def test_tables_are_sorted_and_filtered(self):
        page = self.open("two", "tables?run=0&table=groups&at=5")
        page.wait_for_selector(".data tbody tr")
        self.assertIn("2,000 of 2,000 rows; in all of them subwords is 1", page.inner_text("main .note"))
        page.click('.sort[data-name="v"]')
        self.assertEqual(page.locator('th[aria-sort="descending"]').inner_text().split()[0], "v")
        expected = sorted(table("two-0", "groups", layer=5), key=lambda row: -float(row["v"]))
        column = page.locator(".data thead th").all_inner_texts().index("group")
        self.assertEqual(page.locator(f".data tbody tr >> nth=0").locator("td").nth(column).inner_text(), expected[0]["group"])
        page.fill('.field.grow input', "ka n>=20 v<120")
        kept = [row for row in expected if "ka" in (row["group"] + row["raw"]).lower() and int(row["n"]) >= 20 and float(row["v"]) < 120]
        rows = self.csv(page, page.locator("button:text-is('Download CSV')"))
        self.assertGreater(len(kept), 3)
        self.assertEqual([(row["group"], float(row["v"])) for row in rows], [(row["group"], float(row["v"])) for row in kept])

    def test_nothing_overflows_a_phone(self):
        for name in ["two", "steps", "words", "hostile", "sinks", "old"]:
            for dark in [False, True]:
                page = self.open(name, "overview", width=390, height=844, dark=dark)
                for view in VIEWS:
                    page.goto(page.url.split("#")[0] + f"#{view}?pin=1000,1001,1002")
                    self.settle(page)
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, 390, f"{name}, {view}")

    def test_a_phone_shows_that_the_bar_of_views_goes_on_and_the_value_first(self):
        page = self.open("two", "tables?table=layers", width=390, height=844)
        page.wait_for_selector(".data tbody tr")
        heads = ".data thead th"
        self.assertEqual(page.locator(heads).first.inner_text().strip(), "value")
        bar = page.evaluate("() => { const s = getComputedStyle(document.querySelector('nav')); return [s.scrollbarWidth, s.backgroundImage]; }")
        self.assertEqual(bar[0], "thin")
        self.assertIn("linear-gradient", bar[1])
        page.set_viewport_size({"width": 1440, "height": 900})
        page.wait_for_function("() => document.querySelector('.data thead th').innerText.trim() !== 'value'")

    def test_colours_can_be_read(self):
        for dark in [False, True]:
            page = self.open("two", dark=dark)
            colours = page.evaluate("() => { const s = document.documentElement.style; return Object.fromEntries([...s].filter(n => n.startsWith('--')).map(n => [n.slice(2), s.getPropertyValue(n)])); }")
            self.assertEqual(colours["name"], "dark" if dark else "light")
            for paper in ["page", "paper", "raised"]:
                for ink in ["ink", "quiet", "accent", "warning"]:
                    self.assertGreaterEqual(contrast(colours[ink], colours[paper]), 4.5, f"{ink} on {paper}")
            self.assertGreaterEqual(contrast(colours["accentInk"], colours["accent"]), 4.5)
            curves = set(page.locator(".spark path[stroke]").evaluate_all("paths => paths.map(p => p.getAttribute('stroke'))"))
            self.assertTrue(all(contrast(curve, colours["paper"]) >= 3 for curve in curves), curves)
            page.click(".shade")
            self.assertEqual(page.get_attribute("html", "data-theme"), "light" if dark else "dark")

    def test_numbers_on_colours_can_be_read(self):
        for dark in [False, True]:
            page = self.open("steps", "training", dark=dark)
            self.settle(page)
            cells = page.locator("#figure-steps-anisotropy_svd-decoder-steps svg").evaluate(
                "svg => [...svg.querySelectorAll('rect + text')].map(t => [t.getAttribute('fill'), t.previousElementSibling.getAttribute('fill')])"
            )
            self.assertGreater(len(cells), 50)
            for ink, paper in cells:
                self.assertGreaterEqual(contrast(ink, paper), 4.5, f"{ink} on {paper}")

    def test_everything_one_can_touch_or_hear_has_a_name(self):
        for name in ["two", "sinks"]:
            page = self.open(name, "tokens?pin=1000,1005")
            for view in VIEWS:
                page.goto(page.url.split("#")[0] + f"#{view}")
                self.settle(page)
                nameless = page.evaluate(
                    """() => [...document.querySelectorAll('button, a[href], input, select, svg[role=img], [role=region], [role=group], [role=radiogroup]')].filter(e =>
                    !(e.closest('[aria-hidden=true]') || e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length && e.labels[0].textContent.trim())))
                    .map(e => e.outerHTML.slice(0, 120))"""
                )
                self.assertEqual(nameless, [], view)
                self.assertEqual(page.locator("main h2").count() >= 1, True)


class Hostile(PageTest):
    def test_no_token_is_more_than_text(self):
        for view in VIEWS:
            page = self.open("hostile", f"{view}?min=1&pin=" + ",".join(str(1000 + i) for i in range(12)))
            self.settle(page)
            self.assertIsNone(page.evaluate("window.injected"))
            self.assertEqual(page.locator("img").count(), 0)
            self.assertEqual(page.locator("script:not([type])").count(), 1)
            text = page.inner_text("body")
            self.assertFalse(any(character in text for character in "\u202e\u2028\0\u0007\ufeff"))
            self.assertIn("</title><script>window.injected=1</script>", page.title())

    def test_hostile_names_are_seen_and_saved_harmlessly(self):
        page = self.open("hostile", "tables?table=groups&at=2")
        page.wait_for_selector(".data tbody tr")
        text = page.inner_text("main")
        for shown in ["</script><script>window.injected=1</script>", "\\u{202e}desrever", "line\\u{2028}separator", "nul\\u{0}bell\\u{7}", "=1+1", "x" * 60 + "…"]:
            self.assertIn(shown, text)
        names = [row["group"] for row in self.csv(page, page.locator("button:text-is('Download CSV')"))]
        own = [row["group"] for row in table("hostile-0", "groups", layer=2)]
        self.assertEqual(sorted(names), sorted(own))
        self.assertIn("'=1+1", names)
        self.assertIn("x" * 10_000, names)

    def test_hostile_names_are_found(self):
        page = self.open("hostile", "tokens?min=1")
        page.fill('[role="combobox"]', "</script>")
        page.keyboard.press("Enter")
        self.assertIn("</script>", page.inner_text(".pins"))
        page.fill('[role="combobox"]', "blank before")
        self.assertEqual(page.inner_text('[role="option"][aria-selected="true"] span'), "“ blank before”")
        self.assertIsNone(page.evaluate("window.injected"))


if __name__ == "__main__":
    unittest.main()
