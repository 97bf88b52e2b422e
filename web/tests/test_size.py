"""A run of 25 points and 25,000 tokens: how soon the page is ready and how smoothly it slides."""

import statistics
import unittest

from pages import FOLDER, PageTest, ordinary_least_squares, table

SLIDE = """async () => {
  const slider = document.querySelector('.slider input');
  const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  const times = [];
  await drawn();
  for (let round = 0; round < 3; round++)
    for (let place = 0; place <= Number(slider.max); place++) {
      const start = performance.now();
      slider.value = place;
      slider.dispatchEvent(new Event('input', {bubbles: true}));
      await drawn();
      times.push(performance.now() - start);
    }
  return times;
}"""


class Size(PageTest):
    def test_it_is_ready_soon_and_slides(self):
        page = self.open("big", "tokens?at=12")
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        times = page.evaluate(SLIDE)
        median = statistics.median(times)
        size = (FOLDER / "big.html").stat().st_size
        print(f"\n25 x 25,000: {size / 1e6:.1f} MB, read in {loaded:.0f} ms; sliding: median frame {median:.1f} ms, slowest {max(times):.1f} ms")
        self.assertLess(median, 200)
        self.settle(page)
        rows = [row for row in table("big-0", "groups", layer=24) if 10 <= int(row["n"]) <= 100_000]
        slope, intercept, r2 = ordinary_least_squares([float(row["m"]) for row in rows], [float(row["v"]) for row in rows])
        found = self.regression(page)
        self.assertNear(found["slope"], slope, 1)
        self.assertNear(found["r2"], r2, 1)


if __name__ == "__main__":
    unittest.main()
