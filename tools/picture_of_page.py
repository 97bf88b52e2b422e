"""A picture of a page as it opens: picture_of_page.py PAGE.html ADDRESS OUT.png [WIDTH HEIGHT [dark]]."""

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def main(page_file, address, out, width=1440, height=900, theme="light"):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": int(width), "height": int(height)}, color_scheme=theme)
        page.goto(f"{Path(page_file).resolve().as_uri()}#{address}")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1500)  # what is drawn after the first view
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
