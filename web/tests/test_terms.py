"""Names of measures: what they mean is said where they stand, and where the book says more."""

import base64
import json
import re
import unittest
import zlib

from pages import FOLDER, PageTest, table

ISOSCORE = "(PR − 1) / (d − 1), PR the participation ratio. n counts states. Rudman et al. 2022."


def with_book(name, address):
    """The page of this name, made by a program whose book is on the web."""
    text = (FOLDER / f"{name}.html").read_text(encoding="utf-8")
    element = re.search(r'id="index" data-coding="deflate-raw">([^<]*)<', text)
    index = json.loads(zlib.decompress(base64.b64decode(element[1]), -15))
    index["book"] = address
    packer = zlib.compressobj(wbits=-15)
    packed = base64.b64encode(packer.compress(json.dumps(index).encode()) + packer.flush()).decode()
    (FOLDER / f"{name}-book.html").write_text(text.replace(element[1], packed, 1), encoding="utf-8")
    return f"{name}-book"


class Terms(PageTest):
    def shown(self, page):
        page.wait_for_selector(".definition")
        return page.inner_text("#definition")

    def test_a_definition_opens_under_the_pointer_and_stays_while_it_is_read(self):
        page = self.open("two", "layers?measure=isoscore")
        page.hover("h3 .term")
        self.assertEqual(self.shown(page), ISOSCORE)
        page.hover(".definition")
        page.wait_for_timeout(500)
        self.assertEqual(page.locator(".definition").count(), 1)
        page.hover("footer")
        page.wait_for_selector(".definition", state="detached")

    def test_keyboards_reach_it_and_escape_closes_it(self):
        page = self.open(with_book("two", "https://example.org/book/"), "layers?measure=isoscore")
        page.focus("main .controls input[type=checkbox]")
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.innerText"), "IsoScore")
        self.assertEqual(self.shown(page), ISOSCORE)
        described = page.get_attribute(".term:focus", "aria-describedby")
        self.assertEqual(page.inner_text(f"#{described}"), ISOSCORE)
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.href"), "https://example.org/book/measures/spectrum.html")
        self.assertEqual(page.get_attribute(".definition a", "rel"), "noopener noreferrer")
        page.keyboard.press("Escape")
        self.assertEqual(page.locator(".definition").count(), 0)
        self.assertEqual(page.evaluate("document.activeElement.innerText"), "IsoScore")
        self.assertIsNone(page.get_attribute(".term:focus", "aria-describedby"))

    def test_a_finger_opens_and_closes_it(self):
        context = self.browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, offline=True)
        self.contexts.append(context)
        page = context.new_page()
        page.goto((FOLDER / "two.html").as_uri() + "#layers?measure=isoscore")
        page.tap("h3 .term")
        self.assertEqual(self.shown(page), ISOSCORE)
        box = page.locator(".definition").bounding_box()
        self.assertTrue(box["x"] >= 0 and box["x"] + box["width"] <= 390, box)
        page.tap("h2")
        page.wait_for_selector(".definition", state="detached")

    def test_without_an_address_the_file_of_the_book_is_named(self):
        page = self.open("two", "layers?measure=mean_cosine")
        page.hover("h3 .term")
        self.shown(page)
        self.assertEqual(page.inner_text(".definition .note"), "More in the book: docs/measures/cosine.md")
        self.assertEqual(page.locator("a[href^=http]").count(), 0)

    def test_every_measure_of_a_run_is_explained_by_itself(self):
        page = self.open("two", "layers")
        names = page.locator('label:text-is("Measure") + select option').evaluate_all("options => options.map(option => option.value)")
        self.assertGreater(len(names), 8)
        for name in names:
            page.select_option('label:text-is("Measure") + select', name)
            page.click("main .figure h3 .term >> nth=0")
            self.assertEqual(page.inner_text(".definition code >> nth=0"), name)
            self.assertNotIn(" that line", self.shown(page))

    def test_names_are_explained_in_every_view_that_has_them(self):
        expected = {
            "overview": {"anisotropy_svd", "mean_cosine", "r2_v_on_m", "m_over_q"},
            "tokens": {"slope_v_on_m", "r2_v_on_m", "intercept_v_on_m", "q", "m", "v"},
            "layers": {"m_over_q", "mean_cosine", "q", "m", "v_between", "v_within"},
            "tables?table=layers": set(row["measure"] for row in table("two-0", "layers")[:50]),
        }
        for view, names in expected.items():
            page = self.open("two", view)
            self.settle(page)
            found = set()
            for element in page.locator("main .term:visible").all():
                element.click()
                found.add(page.inner_text(".definition code >> nth=0"))
                page.keyboard.press("Escape")
            self.assertLessEqual(names, found, view)


if __name__ == "__main__":
    unittest.main()
