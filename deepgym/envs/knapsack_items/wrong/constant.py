def knapsack(weights, values, capacity):
    return []
