"""The keys of the page, and the list of them."""

import unittest

from pages import VIEWS, PageTest


class Keys(PageTest):
    def view(self, page):
        return page.get_attribute("main", "data-view")

    def test_keys_turn_views_layers_and_colours(self):
        page = self.open("two")
        page.keyboard.press("n")
        page.wait_for_selector('main[data-view="tokens"] .fit b')
        layer = page.inner_text(".slider output")
        page.keyboard.press(".")
        self.assertNotEqual(page.inner_text(".slider output"), layer)
        page.keyboard.press(",")
        self.assertEqual(page.inner_text(".slider output"), layer)
        page.keyboard.press("/")
        self.assertEqual(page.evaluate("document.activeElement.getAttribute('role')"), "combobox")
        page.keyboard.type("npt?.,")
        self.assertEqual(page.input_value('[role="combobox"]'), "npt?.,")
        self.assertEqual((self.view(page), page.locator("dialog[open]").count()), ("tokens", 0))
        page.focus("nav a >> nth=0")
        page.keyboard.press("t")
        self.assertEqual(page.get_attribute("html", "data-theme"), "dark")
        page.keyboard.press("p")
        page.wait_for_selector('main[data-view="overview"]')
        page.keyboard.press("p")
        page.wait_for_selector(f'main[data-view="{VIEWS[-1]}"]')
        page.keyboard.press("Control+p")
        self.assertEqual(self.view(page), VIEWS[-1])

    def test_the_list_opens_by_key_and_button_and_closes(self):
        page = self.open("two")
        page.keyboard.press("?")
        listed = page.inner_text("dialog[open] dl").split("\n")
        self.assertLessEqual({"n", "p", ".", ",", "/", "t", "?", "Esc"}, set(listed))
        self.assertNotIn("s", listed)  # nothing is massive here
        page.keyboard.press("n")
        self.assertEqual(self.view(page), "overview")
        page.keyboard.press("Escape")
        self.assertEqual(page.locator("dialog[open]").count(), 0)
        page.click(".help")
        page.click('dialog button:text-is("Close")')
        self.assertEqual(page.locator("dialog[open]").count(), 0)
        self.assertEqual(page.evaluate("document.activeElement.className"), "help")

    def test_single_keys_can_be_turned_off(self):
        page = self.open("two")
        page.click(".help")
        page.click("dialog .toggle")
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        self.settle(page)
        self.assertEqual(self.view(page), "overview")
        page.click("nav a >> nth=1")
        page.wait_for_selector('main[data-view="tokens"]')
        self.assertIn("keys=off", page.url)

    def test_states_are_switched_where_some_are_massive(self):
        page = self.open("sinks", "layers")
        checked = lambda: page.locator(".states input:checked").get_attribute("value")
        first = checked()
        page.keyboard.press("s")
        self.assertNotEqual(checked(), first)
        page.keyboard.press("s")
        self.assertEqual(checked(), first)
        self.assertNotIn("states=", page.url)


if __name__ == "__main__":
    unittest.main()
