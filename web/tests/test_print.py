"""The page on paper: black on white, without controls, figures as wide as the sheet."""

import unittest

from pages import VIEWS, PageTest, contrast

HIDDEN = "nav, .tools, .downloads, .reading, input[type=range], .search, .step"


class Paper(PageTest):
    def test_a_dark_page_is_printed_light_and_is_dark_again(self):
        page = self.open("two", "tokens", dark=True)
        self.settle(page)
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(page.get_attribute("html", "data-theme"), "light")
        self.assertEqual(page.evaluate("getComputedStyle(document.documentElement).color"), "rgb(0, 0, 0)")
        self.assertEqual(page.locator(HIDDEN).evaluate_all("all => all.filter(one => one.offsetParent !== null).length"), 0)
        self.assertIn("layer", page.locator(".slider output").inner_text())  # what is chosen is still said
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(page.get_attribute("html", "data-theme"), "dark")

    def test_curves_of_a_dark_page_can_be_read_on_paper(self):
        for view in ["overview", "layers", "massive"]:
            page = self.open("sinks", view, dark=True)
            self.settle(page)
            strokes = lambda: page.locator("main svg path[stroke]").evaluate_all("paths => paths.map(path => path.getAttribute('stroke'))")
            before = strokes()
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            curves = {stroke for stroke in strokes() if stroke.startswith("#")}
            self.assertTrue(curves and all(contrast(curve, "#ffffff") >= 3 for curve in curves), f"{view}: {curves}")
            page.evaluate("dispatchEvent(new Event('afterprint'))")
            self.assertEqual(strokes(), before)

    def test_figures_are_drawn_for_the_sheet(self):
        for view in VIEWS:
            page = self.open("sinks", view)
            self.settle(page)
            before = page.locator("main .figure svg").count()
            page.emulate_media(media="print")
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            sizes = page.locator("main .figure:not(.grid.four *) .stage > svg").evaluate_all("all => all.map(svg => [svg.viewBox.baseVal.width, svg.parentElement.clientWidth])")
            self.assertTrue(all(drawn == stage and stage > 600 for drawn, stage in sizes), f"{view}: {sizes}")
            self.assertLessEqual(page.evaluate("document.getElementById('app').scrollWidth"), 682, view)
            self.assertEqual(page.locator("main .figure svg").count(), before)
            broken = page.locator("main .card, main .figure").evaluate_all("all => all.filter(one => getComputedStyle(one).breakInside !== 'avoid').length")
            self.assertEqual(broken, 0, view)

    def test_the_browser_prints_it(self):
        page = self.open("two", "tokens")
        self.settle(page)
        self.assertTrue(page.pdf(format="A4").startswith(b"%PDF"))
        self.assertEqual(page.get_attribute("html", "class") or "", "")


if __name__ == "__main__":
    unittest.main()
