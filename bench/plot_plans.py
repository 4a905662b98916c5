"""Draws what bench/measure_plans.py measured: every plan of a job, sorted by time, with the initial and the adopted one marked.

    bench/plot_plans.py bench/results/plans.csv docs/plans.svg
"""

import csv
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 360, 60, 20, 34, 40
STYLE = """text{font:12px sans-serif;fill:#333} .grid{stroke:#ddd} .fits{fill:#2b6cb0} .over{fill:none;stroke:#b0b0b0}
.initial{fill:#c05621} .adopted{fill:#2f855a} .lead{stroke:#888}"""


def rows_of(path):
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["first_ms"]]
    for row in rows:
        row["ms"] = float(row["final_ms"] or row["first_ms"])
    return sorted(rows, key=lambda row: row["ms"])


def nice_step(top):
    return next(step for step in (50, 100, 200, 250, 500, 1000, 2000, 5000) if top / step <= 8)


class Picture:
    def __init__(self, count, top):
        self.count, self.step = max(count, 2), nice_step(top)
        self.top = self.step * (int(top / self.step) + 1)
        self.parts = []

    def x(self, index):
        return LEFT + (WIDTH - LEFT - RIGHT) * index / (self.count - 1)

    def y(self, ms):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ms / self.top

    def text(self, x, y, words, anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>')

    def axes(self):
        for ms in range(0, self.top + 1, self.step):
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(ms):.1f}" y2="{self.y(ms):.1f}"/>')
            self.text(LEFT - 6, self.y(ms) + 4, str(ms), "end")
        self.text(LEFT, TOP - 14, "ms per step")
        self.text(WIDTH - RIGHT, HEIGHT - 14, f"{self.count} plans, fastest first (hollow: over the memory limit)", "end")

    def dot(self, index, ms, kind, radius):
        self.parts.append(f'<circle class="{kind}" cx="{self.x(index):.1f}" cy="{self.y(ms):.1f}" r="{radius}"/>')

    def label(self, index, ms, words, up):
        x, y = self.x(index), self.y(ms)
        self.parts.append(f'<line class="lead" x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y - up:.1f}"/>')
        anchor = "start" if x < 0.6 * WIDTH else "end"
        self.text(x + (4 if anchor == "start" else -4), y - up, words, anchor)

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
                f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>' + "\n".join(self.parts) + "</svg>\n")


def draw(rows):
    picture = Picture(len(rows), rows[-1]["ms"])
    picture.axes()
    for index, row in enumerate(rows):
        picture.dot(index, row["ms"], "over" if row["reason"] else "fits", 2.5)
    for role, up in (("adopted", 60), ("initial", 60)):
        for index, row in enumerate(rows):
            if row["role"] == role:
                picture.dot(index, row["ms"], role, 6)
                picture.label(index, row["ms"], f'{role}: {row["ms"]:.0f} ms ({row["plan"]})', up)
    return picture.svg()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = rows_of(sys.argv[1])
    if not rows:
        sys.exit(f"{sys.argv[1]}: expected measured plans, found none: run bench/measure_plans.py first")
    with open(sys.argv[2], "w") as file:
        file.write(draw(rows))


if __name__ == "__main__":
    main()
