import sys

sys.setrecursionlimit(100_000)
rows = sys.stdin.read().split()
doors = {}
for r, row in enumerate(rows):
    for c, mark in enumerate(row):
        if mark == "S":
            start = (r, c)
        elif mark.isdigit():
            doors.setdefault(mark, []).append((r, c))
best = -1
stack = [(start, 0, frozenset([start]))]
while stack:  # every path without a repeated place
    (r, c), steps, path = stack.pop()
    if rows[r][c] == "G":
        best = steps if best < 0 else min(best, steps)
        continue
    for place in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
        if 0 <= place[0] < len(rows) and 0 <= place[1] < len(rows[0]) and rows[place[0]][place[1]] != "#":
            mark = rows[place[0]][place[1]]
            if mark.isdigit():
                place = doors[mark][1 - doors[mark].index(place)]
            if place not in path:
                stack.append((place, steps + 1, path | {place}))
print(best)
