"""Figures of the papers that views contain: every number is one of the tables, or follows from them by its definition."""

import json
import math
import statistics
import unittest

from pages import FOLDER, PageTest, ordinary_least_squares, table


def ranks(values):
    """Ranks from 1, ties sharing their mean."""
    return [sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values]


class Figures(PageTest):
    def test_the_two_anisotropies_are_paired_and_ranked(self):
        page = self.open("two", "profiles")
        figure = page.locator("#figure-agreement")
        rows = self.csv(page, figure.locator("button:text-is('CSV')"))
        self.assertEqual(len(rows), 13 + 14)
        for row in rows:
            run = "two-0" if row["model"] == "encoder-small" else "two-1"
            of = lambda measure: float(table(run, "layers", layer=row["layer"], point=row["point"], selection="all", measure=measure)[0]["value"])
            self.assertEqual((float(row["mean_cosine"]), float(row["m_over_q"])), (of("mean_cosine"), of("m_over_q")))
        ranked = [row for row in rows if not (row["model"] == "decoder-small" and row["layer"] == "12" and row["point"] == "block")]
        rho = statistics.correlation(ranks([float(row["mean_cosine"]) for row in ranked]), ranks([float(row["m_over_q"]) for row in ranked]))
        self.assertIn(f"ρ {rho:.3f} over {len(ranked)} points".replace("-", "−"), figure.inner_text())
        self.assertEqual(figure.locator("svg title").count(), len(rows))

    def test_sentences_are_counted_by_their_words(self):
        page = self.open("two")
        figure = page.locator("#figure-sentence-lengths-encoder-small")
        words = json.loads((FOLDER / "two-0" / "manifest.json").read_text())["sentence_words"]
        rows = self.csv(page, figure.locator("button:text-is('CSV')"))
        self.assertEqual((len(rows), float(rows[0]["from"]), float(rows[-1]["to"])), (30, 1, 63))
        for row in rows:
            end = float(row["to"])
            inside = lambda length: float(row["from"]) <= length < end or (row is rows[-1] and length == 63)
            self.assertEqual(int(row["sentences"]), sum(times for length, times in words if inside(length)), row)
        total = sum(times for _, times in words)
        mean = sum(length * times for length, times in words) / total
        self.assertIn(f"{total:,} sentences with {mean:.1f} words on average", figure.inner_text())

    def test_the_range_of_frequencies_is_swept(self):
        page = self.open("two", "tokens?run=0&at=6&min=12&max=4000")
        page.click("#sweep summary >> nth=0")
        names = [("minimum", "cv_q"), ("minimum", "slope_v_on_m"), ("maximum", "slope_v_on_m"), ("maximum", "r2_v_on_m")]
        for sweep, measure in names:
            figure = page.locator(f"#figure-sweep-{sweep}-{measure}-encoder-small")
            rows = self.csv(page, figure.locator("button:text-is('CSV')"))
            self.assertGreater(len(rows), 13 * 7)
            for row in rows[:: 5]:
                low, high = int(row["minimum"]), int(row["maximum"])
                self.assertTrue(high == 4000 if sweep == "minimum" else low == 12)
                groups = [own for own in table("two-0", "groups", layer=row["layer"]) if low <= int(own["n"]) <= high]
                m, v, q = ([float(own[name]) for own in groups] for name in "mvq")
                if measure == "cv_q":
                    expected = statistics.pstdev(q) / statistics.fmean(q) if q else None
                else:
                    slope, _, r2 = ordinary_least_squares(m, v) if len(m) >= 3 else (None, None, None)
                    expected = slope if measure == "slope_v_on_m" else r2
                if expected is None:
                    self.assertEqual(row[measure], "")
                else:
                    self.assertNear(float(row[measure]), expected, 10)

    def test_words_are_coloured_by_their_subwords(self):
        page = self.open("words", "tokens?at=2&min=1")
        figure = page.locator("#figure-variance-on-mean-encoder-words")
        self.assertIn("subwords", figure.locator("svg").text_content())
        rows = self.csv(page, figure.locator("button:text-is('CSV')"))
        own = {row["group_id"]: row for row in table("words-0", "groups", layer=2)}
        self.assertEqual(len(rows), len(own))
        self.assertTrue(all(row["subwords"] == own[row["group_id"]]["subwords"] and float(row["v"]) == float(own[row["group_id"]]["v"]) for row in rows))
        found = page.evaluate("() => { const c = document.querySelector('.stage.scatter canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 204) s.add([d[i], d[i + 1], d[i + 2]].join()); return [...s]; }")
        self.assertEqual(len([colour for colour in found if colour != "213,214,216"]), 3, f"one colour for each of 1, 2 and 3 subwords: {found}")
        page.click('label:text-is("Occurrences")')
        self.assertIn("occurrences", figure.locator("svg").text_content())

    def test_kept_tokens_are_named(self):
        page = self.open("two", "tokens?run=0&at=6")
        self.settle(page)
        page.click('label:has-text("Names of the kept tokens")')
        names = page.locator(".stage.scatter text.kept").all_text_contents()
        kept = {row["group"] for row in table("two-0", "tokens", layer=6, role="mean")}
        self.assertGreater(len(names), 5)
        self.assertTrue(set(names) <= kept, set(names) - kept)

    def test_a_band_is_the_spread_over_batches(self):
        page = self.open("two", "profiles?measure=anisotropy_svd&variant=batch4096&selection=sample")
        self.assertIn("standard deviation over batches", page.inner_text("main .figure .note >> nth=0"))
        svg = page.locator("main .figure >> nth=0 >> svg")
        self.assertEqual(svg.locator("path[fill-opacity='0.16']").count(), 2)


class Steps(PageTest):
    def choose(self, page, step):
        page.select_option('label:text-is("Step") + select', label=f"{step:,}")
        self.settle(page)

    def test_every_step_has_its_groups(self):
        page = self.open("steps", "tokens?at=3")
        self.assertEqual(page.locator('label:text-is("Step") + select option').count(), 9)
        for step in [143_000, 8, 0]:
            self.choose(page, step)
            page.wait_for_selector(".fit b")
            self.settle(page)
            rows = [row for row in table(f"steps-0/steps/step{step}", "groups", layer=3) if 10 <= int(row["n"]) <= 100_000]
            slope, intercept, r2 = ordinary_least_squares([float(row["m"]) for row in rows], [float(row["v"]) for row in rows])
            found = self.regression(page)
            self.assertEqual(found["groups"], len(rows))
            self.assertNear(found["slope"], slope, 10)
            self.assertNear(found["r2"], r2, 1)
        self.assertIn("at=3", page.url)

    def test_every_step_has_its_spectra_components_and_projections(self):
        page = self.open("steps", "spectrum?at=6n")
        self.choose(page, 64)
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        key = lambda row: (row["layer"], row["point"], int(row["rank"]), float(row["eigenvalue"]))
        self.assertEqual(sorted(map(key, rows)), sorted(map(key, table("steps-0/steps/step64", "spectra"))))
        page.click("nav a:text-is('Components')")
        self.settle(page)
        self.assertIn("64", page.inner_text('label:text-is("Step") + select option:checked'))
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("steps-0/steps/step64", "components", layer=6, point="final_norm")
        self.assertEqual([float(row["variance"]) for row in rows], [float(row["variance"]) for row in expected])
        page.click("nav a:text-is('PCA')")
        self.settle(page)
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=0"))
        expected = table("steps-0/steps/step64", "tokens", layer=6, point="final_norm")
        self.assertEqual([row["group"] for row in rows], [row["group"] for row in expected])

    def test_embedding_matrices_move_with_the_steps(self):
        page = self.open("steps", "embeddings")
        self.settle(page)
        figure = page.locator("#figure-embeddings-decoder-steps")
        self.assertEqual(page.inner_text(".slider output"), "step 143,000")
        page.locator('.slider input[aria-label="Training step"]').focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        self.settle(page)
        self.assertEqual(page.inner_text(".slider output"), "step 1")
        for label, point in [("Output", "output_embedding"), ("Input", "input_embedding")]:
            page.click(f'.segments label:text-is("{label}")')
            self.settle(page)
            rows = self.csv(page, figure.locator("button:text-is('CSV')"))
            expected = table("steps-0", "projections", step=1, point=point)
            self.assertEqual([row["group_id"] for row in rows], [row["group_id"] for row in expected])
            for row, own in zip(rows, expected):
                self.assertEqual((row["step"], row["point"]), ("1", point))
                self.assertLessEqual(abs(float(row["x"]) - float(own["x"])) + abs(float(row["y"]) - float(own["y"])), 1e-5)  # places on paper are f32
        cells = page.locator("main section tr:has(th .term:text-is('Mean cosine')) td").all_inner_texts()
        last = [float(table("steps-0", "layers", measure="mean_cosine", step=143_000, point=point)[0]["value"]) for point in ("input_embedding", "output_embedding")]
        self.assertEqual([float(cell) for cell in cells], [float(f"{value:.4g}") for value in last])

    def test_means_over_layers_count_the_last_one_once(self):
        page = self.open("steps", "training?measure=mean_cosine")
        rows = self.csv(page, page.locator("main .figure button:text-is('CSV') >> nth=2"))
        for row in rows:
            own = [value for value in table("steps-0", "layers", measure="mean_cosine", step=row["step"]) if value["layer"]]
            counted = [float(value["value"]) for value in own if not (value["layer"] == "6" and value["point"] == "block")]
            self.assertNear(float(row["mean over the layers"]), math.fsum(counted) / 7, 1)
            for name, point in [("input embedding", "input_embedding"), ("output embedding", "output_embedding")]:
                self.assertEqual(float(row[name]), float(table("steps-0", "layers", measure="mean_cosine", step=row["step"], point=point)[0]["value"]))


if __name__ == "__main__":
    unittest.main()
