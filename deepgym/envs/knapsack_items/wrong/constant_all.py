def knapsack(weights, values, capacity):
    return list(range(len(weights)))
