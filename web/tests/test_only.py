"""A page of some views, and one that opens on what was asked of the runs."""

import unittest

from pages import FOLDER, VIEWS, PageTest

# Lines through all layers come a little later than the layer that is shown.
DRAWN = "() => [...document.querySelectorAll('main .grid.two svg')].every(svg => [...svg.querySelectorAll('path')].some(path => path.getAttribute('d').length > 20))"


class Only(PageTest):
    def test_other_tabs_are_absent_and_the_numbers_are_the_same(self):
        self.assertLess((FOLDER / "some.html").stat().st_size, (FOLDER / "two.html").stat().st_size)
        page = self.open("some")
        self.assertEqual(page.locator("nav a").all_inner_texts(), ["Tokens", "Layers"])
        page.wait_for_selector(".fit b")
        for address in ["tokens?run=1&at=7&min=20", "layers?measure=isoscore"]:
            both = []
            for name in ["two", "some"]:
                page = self.open(name, address)
                self.settle(page)
                if address.startswith("tokens"):
                    page.wait_for_function(DRAWN)
                lines = page.locator("main .figure svg").evaluate_all("all => all.map(svg => [...svg.querySelectorAll('path')].map(path => path.getAttribute('d')).join())")
                both.append((self.regression(page) if address.startswith("tokens") else None, lines))
            self.assertGreater(len(both[0][1]), 1)
            self.assertEqual(both[0], both[1])

    def test_an_address_of_an_absent_view_shows_the_first(self):
        page = self.open("some", "pca")
        page.wait_for_selector('main[data-view="tokens"] .fit b')
        self.assertEqual(page.locator("main > .absent").count(), 0)

    def test_every_view_can_be_named(self):
        tabs = [title.lower() for title in self.open("two").locator("nav a").all_inner_texts()]
        self.assertEqual(tabs, ["layers" if view == "profiles" else view for view in VIEWS])


class Asked(PageTest):
    def test_the_page_opens_on_what_was_asked(self):
        page = self.open("asked")
        self.assertEqual(page.inner_text("main h2 >> nth=0"), "What papers found, and what is seen here")
        self.assertIn("Of 3 statements 1 agrees, 1 differs, 1 cannot be told", page.inner_text(".asked > .note"))
        card = [line for line in page.inner_text(".asked .card >> nth=0").split("\n") if line]
        self.assertEqual(card, ["✓ agrees", "Variance falls as the norm grows", "Here: slope −0.98 ± 0.01.", "Someone 2025: slope −1."])
        self.assertIn("<b>sinks</b> carry Q", page.inner_text(".asked"))
        top = page.locator(".asked .card >> nth=0").bounding_box()["y"]
        self.assertLess(top, 400)
        self.assertEqual(self.open("two").locator(".asked").count(), 0)


if __name__ == "__main__":
    unittest.main()
