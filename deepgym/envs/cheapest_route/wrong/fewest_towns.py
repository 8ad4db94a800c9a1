from collections import deque


def cheapest_route(count, roads, start, goal):
    waiting = deque([(start, 0, [start])])
    seen = {start}
    while waiting:
        town, total, route = waiting.popleft()
        if town == goal:
            return [total, route]
        for a, b, price in roads:
            if a == town and b not in seen:
                seen.add(b)
                waiting.append((b, total + price, [*route, b]))
    return []
