import heapq


def cheapest_route(count, roads, start, goal):
    leaving = [[] for _ in range(count)]
    for a, b, price in roads:
        leaving[a].append((b, price))
    came_from = {}
    heap = [(0, start, None)]
    while heap:
        total, town, previous = heapq.heappop(heap)
        if town in came_from:
            continue
        came_from[town] = previous
        if town == goal:
            route = []
            while town is not None:
                route.append(town)
                town = came_from[town]
            return [total, route[::-1]]
        for neighbour, price in leaving[town]:
            if neighbour not in came_from:
                heapq.heappush(heap, (total + price, neighbour, town))
    return []
