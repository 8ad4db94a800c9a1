def cheapest_route(count, roads, start, goal):
    best = []

    def walk(town, total, route):
        nonlocal best
        if town == goal:
            if not best or total < best[0]:
                best = [total, list(route)]
            return
        for a, b, price in roads:
            if a == town and b not in route:
                route.append(b)
                walk(b, total + price, route)
                route.pop()

    walk(start, 0, [start])
    return best
