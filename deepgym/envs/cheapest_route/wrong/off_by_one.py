import heapq


def cheapest_route(count, roads, start, goal):
    leaving = [[] for _ in range(count)]
    for a, b, price in roads:
        leaving[a].append((b, price))
    heap, done = [(0, start, [start])], set()
    while heap:
        total, town, route = heapq.heappop(heap)
        if town == goal:
            return [total, route[:-1]]  # the goal is left out
        if town not in done:
            done.add(town)
            for neighbour, price in leaving[town]:
                heapq.heappush(heap, (total + price, neighbour, [*route, neighbour]))
    return []
