"""The switch between typical and all states: what every view shows is what the tables say of the states that are chosen."""

import re
import statistics
import unittest

from pages import VIEWS, PageTest, table

RUN = "sinks-0"
LAYER = 6  # where some states are massive
SELECTIONS = {"typical": ("typical", "typical_selected", "typical_sample"), "all": ("all", "selected", "sample")}
WORDS = {"typical": "without massive states", "all": "massive states included"}

# What a measure is over, in the order in which one is chosen.
OVER = {"selected": "groups in the run's frequency range", "all": "all states", "sample": "the kept sample of states"}
DECOMPOSED = {**OVER, "typical": "all states but the massive ones", "typical_selected": "groups in the run's frequency range, without massive states"}


def value(measure, selection, layer=LAYER, point="block", run=RUN, **where):
    return float(table(run, "layers", layer=layer, point=point, selection=selection, measure=measure, **where)[0]["value"])


class States(PageTest):
    def choose(self, page, states):
        page.click(f'.states label:text-is("{states.capitalize()}")')
        self.settle(page)

    def first_csv(self, page):
        self.settle(page)
        page.wait_for_selector("main .figure svg")
        return self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))

    def both(self, address):
        """The page at an address with either choice, by deep link."""
        for states in ["typical", "all"]:
            page = self.open("sinks", f"{address}{'&' if '?' in address else '?'}states={states}")
            self.settle(page)
            self.assertEqual(page.input_value(".states input:checked"), states)
            yield states, SELECTIONS[states], page

    def test_there_is_a_switch_only_where_states_are_massive(self):
        page = self.open("two")
        self.assertEqual(page.locator(".states, .massive-line").count(), 0)
        page = self.open("sinks")
        self.assertEqual(page.input_value(".states input:checked"), "typical")
        counts = {}
        for row in table(RUN, "layers", measure="q"):
            if row["selection"] in ("all", "typical"):
                counts.setdefault((row["layer"], row["point"]), {})[row["selection"]] = (float(row["value"]) * int(row["n"]), int(row["n"]))
        share, layer, massive, states = max((1 - own["typical"][0] / own["all"][0], at[0], own["all"][1] - own["typical"][1], own["all"][1]) for at, own in counts.items())
        line = page.inner_text(".massive-line")
        self.assertIn(f"decoder-sinks: {massive:,} of {states:,} states are massive and carry {100 * share:.1f} % of Q at layer {layer}", line)
        self.assertNotIn("encoder-plain", line)
        self.assertIn("They are left out here.", line)
        self.choose(page, "all")
        self.assertIn("They are included here.", page.inner_text(".massive-line"))

    def test_the_choice_goes_along_and_is_part_of_the_address(self):
        page = self.open("sinks", "tokens?run=0&at=6")
        self.assertNotIn("states=", page.url)
        self.choose(page, "all")
        self.assertIn("states=all", page.url)
        for view in VIEWS:
            page.click(f"nav a >> nth={VIEWS.index(view)}")
            page.wait_for_selector(f'main[data-view="{view}"] h2')
            self.assertIn("states=all", page.url)
            self.assertEqual(page.input_value(".states input:checked"), "all")
        self.choose(page, "typical")
        self.assertNotIn("states=", page.url)
        page.go_back()
        page.wait_for_selector("html[data-ready]")

    def test_the_keyboard_turns_the_switch(self):
        page = self.open("sinks", "profiles?measure=mean_cosine")
        page.focus(".states input:checked")
        page.keyboard.press("ArrowRight")
        self.settle(page)
        self.assertEqual(page.input_value(".states input:checked"), "all")
        self.assertEqual(page.evaluate("document.activeElement.value"), "all")

    def test_old_runs_cannot_leave_massive_states_out(self):
        page = self.open("old", "tokens?at=3&states=typical")
        self.assertTrue(page.locator('.states input[value="typical"]').is_disabled())
        self.assertEqual(page.input_value(".states input:checked"), "all")
        self.assertIn("older version", page.get_attribute(".states", "title"))
        self.assertIn("are massive and carry", page.inner_text(".massive-line"))
        self.assertNear(self.regression(page)["slope"], value("slope_v_on_m", "selected", layer=3, run="old-0"), 1)
        page = self.open("old", "profiles?measure=q&selection=typical")
        rows = self.first_csv(page)
        self.assertEqual({row["selection"] for row in rows}, {"typical"}, "what it has can still be chosen")
        page = self.open("mixed", "profiles?measure=slope_v_on_m")
        self.assertIn("decoder-old: measured by an older version", page.inner_text(".massive-line"))
        rows = self.first_csv(page)
        self.assertEqual({(row["model"], row["selection"]) for row in rows}, {("decoder-sinks", "typical_selected"), ("decoder-old", "selected")})

    def test_tokens(self):
        for states, (_, selected, _), page in self.both(f"tokens?run=0&at={LAYER}"):
            page.wait_for_selector(".fit b")
            found = self.regression(page)
            self.assertNear(found["slope"], value("slope_v_on_m", selected), 1)
            self.assertNear(found["r2"], value("r2_v_on_m", selected), 1)
            self.assertEqual(found["groups"], value("groups", selected))
            figure = page.locator("#figure-variance-on-mean-decoder-sinks")
            own = {row["group_id"]: row for row in table(RUN, "groups", layer=LAYER, point="block", selection=states)}
            rows = self.csv(page, figure.locator("button:text-is('CSV')"))
            self.assertEqual(len(rows), found["groups"])
            for row in rows:
                expected = own[row["group_id"]]
                self.assertEqual((int(row["n"]), float(row["m"]), float(row["v"])), (int(expected["n"]), float(expected["m"]), float(expected["v"])))
                self.assertEqual(expected["special"], "0")
            self.assertIn(WORDS[states], figure.locator("svg .y-label").text_content())
            slopes = self.csv(page, page.locator("#figure-slope-decoder-sinks button:text-is('CSV')"))
            for row in slopes[1:]:
                self.assertNear(float(row["slope"]), value("slope_v_on_m", selected, layer=row["layer"], point=row["point"]), 1)

    def test_special_tokens_are_drawn_but_never_selected(self):
        page = self.open("sinks", "tokens?run=0&at=12&min=1&max=1000000")
        self.settle(page)
        rows = table(RUN, "groups", layer=12, point="block", selection="all")
        self.assertEqual(self.regression(page)["groups"], len(rows) - 1)
        page.fill('[role="combobox"]', "<s>")
        page.keyboard.press("Enter")
        self.assertIn("<s>", page.inner_text(".pins"))
        page.hover(".pins tbody tr")
        self.assertIn("special token, never selected", page.inner_text(".tip"))
        self.assertIn("without massive states", page.inner_text(".tip"))

    def test_a_level_line_has_no_r2(self):
        page = self.open("sinks", "tokens?run=0&at=0")
        found = self.regression(page)
        self.assertEqual((found["slope"], found["intercept"], str(found["r2"])), (0, 0, "nan"))
        self.assertEqual(page.inner_text('.fit [data-name="r2"]'), "–")

    def test_profiles_and_agreement(self):
        for states, (everything, selected, sample), page in self.both("profiles?measure=slope_v_on_m"):
            for row in self.first_csv(page):
                if row["model"] == "decoder-sinks":
                    self.assertEqual((row["selection"], float(row["value"])), (selected, value("slope_v_on_m", selected, row["layer"], row["point"])))
            self.assertIn(WORDS[states].capitalize(), page.inner_text("main .figure .note >> nth=0"))
            offered = page.locator('label:text-is("Over") + select option').all_text_contents()
            self.assertEqual(len(offered), 2, "the switch chooses the rest")
            self.assertIn(f"Over {OVER['selected']}.", page.inner_text("main .figure .note >> nth=0"))
            parts = page.locator("#figure-decomposition-decoder-sinks")
            over = next(name for name in [selected, everything] if table(RUN, "layers", measure="m_over_q", selection=name))
            self.assertEqual(parts.locator(".note").inner_text(), f"Over {DECOMPOSED[over]}.")
            for row in self.csv(page, parts.locator("button:text-is('CSV')")):
                self.assertEqual(float(row["m_over_q"]), value("m_over_q", over, row["layer"], row["point"]))
            rows = self.csv(page, page.locator("#figure-agreement button:text-is('CSV')"))
            for row in rows:
                if row["model"] == "decoder-sinks":
                    self.assertEqual(float(row["mean_cosine"]), value("mean_cosine", everything, row["layer"], row["point"]))
            page.select_option('label:text-is("Measure") + select', "intrinsic_dimension")
            self.assertEqual({row["selection"] for row in self.first_csv(page) if row["model"] == "decoder-sinks"}, {sample})
            page.select_option('label:text-is("Measure") + select', "massive_activations")
            self.assertIn("Massive states included", page.inner_text("main .figure .note >> nth=0"), "it has no typical states")

    def test_the_overview(self):
        for states, (everything, _, _), page in self.both("overview"):
            page.wait_for_selector(".card a")
            peak = max((row for row in table(RUN, "layers", measure="anisotropy_svd", variant="corpus", selection=everything)), key=lambda row: float(row["value"]))
            self.assertIn(f"peaks at {float(peak['value']):.3f}", page.inner_text('.card:has(h3 .term:text-is("Anisotropy")) li >> nth=0'))
            self.assertIn(WORDS[states], page.inner_text("main"))

    def test_spectrum_components_and_pca(self):
        own = lambda name, states, **where: table(RUN, name, point="block", layer=LAYER, selection=states, **where)
        for states, _, page in self.both(f"spectrum?run=0&at={LAYER}"):
            rows = [row for row in self.first_csv(page) if row["layer"] == str(LAYER)]
            self.assertEqual([float(row["eigenvalue"]) for row in rows], [float(row["eigenvalue"]) for row in own("spectra", states)])
        for states, _, page in self.both(f"components?run=0&at={LAYER}"):
            rows = self.first_csv(page)
            self.assertEqual([float(row["variance"]) for row in rows], [float(row["variance"]) for row in own("components", states)])
        for states, _, page in self.both(f"pca?run=0&at={LAYER}"):
            rows = self.first_csv(page)
            expected = own("tokens", states)
            self.assertEqual(len(rows), len(expected))
            for row, one in zip(rows, expected):
                self.assertEqual((row["group"], row["role"]), (one["group"], one["role"]))
                self.assertLessEqual(abs(float(row["x"]) - float(one["x"])), 1e-6 * max(40, abs(float(one["x"]))))
            self.assertIn(WORDS[states].capitalize(), page.inner_text("main .figure .note >> nth=0"))

    def test_the_components_of_a_token(self):
        chosen = table(RUN, "token_components", layer=LAYER, selection="all", component=0)
        one = next(row for row in chosen if row["group_id"] == "1020")  # some of its states are massive
        for states, _, page in self.both(f"components?run=0&at={LAYER}&token={one['group_id']}"):
            page.wait_for_selector("#token-components svg")
            rows = self.csv(page, page.locator("#token-components button:text-is('CSV')"))
            expected = table(RUN, "token_components", layer=LAYER, selection=states, group_id=one["group_id"])
            self.assertEqual(len(rows), len(expected))
            for row, own in zip(rows, expected):
                for name in ["q", "mean", "variance"]:
                    self.assertLessEqual(abs(float(row[name]) - float(own[name])), 3e-7 * abs(float(own[name])) + 1e-12)  # drawn from f32
            q = sum(float(row["q"]) for row in expected)
            found = float(page.get_attribute('#token-components [data-name="q"]', "data-value"))
            self.assertLessEqual(abs(found - q), 1e-6 * q)
            top = max(expected, key=lambda row: float(row["q"]))
            self.assertEqual(page.inner_text("#token-components tbody th >> nth=0"), top["component"])
            page.click('#token-components label:text-is("By size")')
            self.assertIn("order=size", page.url)
            self.assertIn("by size", page.text_content("#token-components svg"))
        special = next(row["group_id"] for row in chosen if row["token"] == "<s>")
        page = self.open("sinks", f"components?run=0&at={LAYER}&token={special}")
        page.wait_for_selector("#token-components svg")
        self.assertNotIn("<s>", page.locator("#token-components select").inner_text(), "all its states are massive here")

    def test_the_massive_states_themselves(self):
        page = self.open("sinks", f"massive?run=0&at={LAYER}")
        page.wait_for_selector("#who tbody tr")
        rows = self.csv(page, page.locator("#figure-massive-share button:text-is('CSV')"))
        self.assertEqual({row["model"] for row in rows}, {"decoder-sinks"})
        for row in rows:
            of = lambda selection: table(RUN, "layers", measure="q", selection=selection, layer=row["layer"], point=row["point"])[0]
            sum_of = lambda selection: float(of(selection)["value"]) * int(of(selection)["n"])
            self.assertNear(float(row["massive_share_of_q"]), 1 - sum_of("typical") / sum_of("all"), 1)
        own = sorted(table(RUN, "massive", layer=LAYER), key=lambda row: -int(row["count"]))
        first = page.locator("#who tbody tr >> nth=0")
        self.assertEqual(first.locator("th").inner_text(), own[0]["token"])
        cells = first.locator("td").all_inner_texts()
        self.assertEqual((cells[0], cells[1]), (own[0]["position"] or "16 or later", f"{int(own[0]['count']):,}"))
        self.assertTrue(cells[4].startswith(f"{own[0]['component_1']}: "), cells[4])
        self.assertIn(f"{sum(int(row['count']) for row in own):,} massive states at layer {LAYER}", page.inner_text("#who > .note"))
        rows = self.csv(page, page.locator("#who button:text-is('CSV')"))
        self.assertEqual(len(rows), len(table(RUN, "massive")))
        rows = self.csv(page, page.locator("#figure-hidden-anisotropy_svd-decoder-sinks button:text-is('CSV')"))
        for name, selection in [(WORDS["all"], "all"), (WORDS["typical"], "typical")]:
            found = {(row["layer"], row["point"]): float(row["anisotropy_svd"]) for row in rows if row["states"] == name}
            self.assertEqual(found[(str(LAYER), "block")], value("anisotropy_svd", selection, variant="corpus"))
            self.assertEqual({row["selection"] for row in rows if row["states"] == name}, {selection})
        page = self.open("two", "massive")
        self.assertIn("No state is massive", page.inner_text("main"))

    def test_what_massive_states_hide_is_drawn_over_what_it_says(self):
        page = self.open("sinks", "massive?run=0")
        page.wait_for_selector("#figure-hidden-slope_v_on_m-decoder-sinks svg")
        self.settle(page)
        seen = set()
        for measure in ["anisotropy_svd", "mean_cosine", "m_over_q", "slope_v_on_m", "r2_v_on_m"]:
            figure = page.locator(f"#figure-hidden-{measure}-decoder-sinks")
            rows = self.csv(page, figure.locator("button:text-is('CSV')"))
            known = {row["selection"] for row in table(RUN, "layers", measure=measure)}
            over = next(selection for selection in OVER if selection in known)  # as everywhere on the page
            seen.add(over)
            self.assertTrue(figure.locator(".note").inner_text().startswith(f"Over {OVER[over]}"), measure)
            self.assertEqual({(row["states"], row["selection"]) for row in rows}, {(WORDS["all"], over), (WORDS["typical"], "typical" if over == "all" else f"typical_{over}")})
            for row in rows:
                own = table(RUN, "layers", measure=measure, **{name: row[name] for name in ["selection", "variant", "layer", "point"]})
                self.assertEqual([one["value"] and float(one["value"]) for one in own], [row[measure] and float(row[measure])])
            names = figure.locator("svg > g > text").all_text_contents()
            for name, path in zip([WORDS["all"], WORDS["typical"]], figure.locator('svg path[fill="none"]').all()):
                self.assertIn(name, names)
                values = [float(row[measure]) for row in rows if row["states"] == name and row[measure] and not (row["layer"] == "12" and row["point"] == "block")]
                heights = [float(step.split()[1].split("h")[0]) for step in re.split("[ML]", path.get_attribute("d"))[1:]]
                self.assertEqual(len(heights), len(values))
                if max(values) > min(values):
                    self.assertLess(statistics.correlation(values, heights), -0.99999, f"{measure}, {name}")
        self.assertEqual(seen, {"all", "selected"}, "not all are over the same")
        page.click(".panel:has-text('What they hide') > .how summary")
        # It is written when it is opened.
        page.wait_for_selector(".panel:has-text('What they hide') > .how :text('all of them, and all but the massive ones')")

    def test_training(self):
        for states, name in [("typical", "typical"), ("all", "all")]:
            page = self.open("trained", f"training?measure=mean_cosine&states={states}")
            rows = self.first_csv(page)
            own = table("trained-0", "layers", measure="mean_cosine", selection=name)
            weights = [row for row in table("trained-0", "layers", measure="mean_cosine", selection="all") if not row["layer"]]
            key = lambda row: (row["step"], row["layer"], row["point"], float(row["value"]))
            self.assertEqual(sorted(map(key, rows)), sorted(map(key, [row for row in own if row["layer"]] + weights)))
            self.assertIn(WORDS[states].capitalize(), page.inner_text("main .figure .note >> nth=0"))
            self.assertIn("embedding", page.text_content("#figure-over-steps-mean_cosine-decoder-sink-steps svg"), "weights have no massive states")
        page = self.open("trained", "massive?at=2")
        page.wait_for_selector("#who tbody tr")
        own = sorted(table("trained-0/steps/step143000", "massive", layer=2), key=lambda row: -int(row["count"]))
        self.assertEqual(page.inner_text("#who tbody th >> nth=0"), own[0]["token"])
        page.select_option('label:text-is("Step") + select', label="512")
        page.wait_for_selector("#who tbody tr")
        own = table("trained-0/steps/step512", "massive", layer=2)
        self.assertIn(f"{sum(int(row['count']) for row in own):,} massive states", page.inner_text("#who > .note"))

    def test_tables(self):
        for states, selections, page in self.both(f"tables?run=0&table=groups&at={LAYER}"):
            page.wait_for_selector(".data tbody tr")
            rows = self.csv(page, page.locator("button:text-is('Download CSV')"))
            own = {row["group_id"]: row for row in table(RUN, "groups", layer=LAYER, point="block", selection=states)}
            for row in rows:
                self.assertEqual(row["v"] and float(row["v"]), row["group_id"] in own and float(own[row["group_id"]]["v"]) or row["v"] and 0.0)
            self.assertEqual(sum(1 for row in rows if row["v"]), len(own))
            page.select_option('label:text-is("Table") + select', "layers")
            self.settle(page)
            rows = self.csv(page, page.locator("button:text-is('Download CSV')"))
            states_of = {row["selection"] for row in rows if row["measure"] == "q"}
            self.assertEqual(states_of, set(selections[:2]))
            self.assertEqual(len([row for row in rows if row["measure"] == "partition"]), 2, "weights have no massive states")
            self.assertEqual(len([row for row in rows if row["measure"] == "mean_cosine"]), 14 + 2)

    def test_a_switch_on_a_phone(self):
        for states in ["typical", "all"]:
            page = self.open("sinks", f"tokens?states={states}", width=390, height=844)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
            self.assertTrue(page.locator(".states").is_visible())


if __name__ == "__main__":
    unittest.main()
