import sys
from collections import deque

rows = sys.stdin.read().split()
doors = {}
for r, row in enumerate(rows):
    for c, mark in enumerate(row):
        if mark == "S":
            start = (r, c)
        elif mark.isdigit():
            doors.setdefault(mark, []).append((r, c))
distance = {start: 0}
waiting = deque([start])
answer = -1
while waiting:
    r, c = waiting.popleft()
    if rows[r][c] == "G":
        answer = distance[r, c]
        break
    for place in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
        if not (0 <= place[0] < len(rows) and 0 <= place[1] < len(rows[0])):
            continue
        mark = rows[place[0]][place[1]]
        if mark == "#":
            continue
        if mark.isdigit():
            first, second = doors[mark]
            place = second if place != first else first
        if place not in distance:
            distance[place] = distance[r, c] + 1
            waiting.append(place)
print(answer)
