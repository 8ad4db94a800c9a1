def knapsack(weights, values, capacity):
    best = [0] * (capacity + 1)
    taken = []
    for weight, value in zip(weights, values, strict=False):
        row = [False] * (capacity + 1)
        for room in range(capacity, weight - 1, -1):
            if best[room - weight] + value > best[room]:
                best[room] = best[room - weight] + value
                row[room] = True
        taken.append(row)
    chosen, room = [], capacity
    for i in range(len(weights) - 1, 0, -1):
        if taken[i][room]:
            chosen.append(i)
            room -= weights[i]
    return chosen
