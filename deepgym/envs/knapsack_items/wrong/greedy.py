def knapsack(weights, values, capacity):
    chosen = []
    for i in sorted(range(len(weights)), key=lambda i: -values[i] / weights[i]):
        if weights[i] <= capacity:
            chosen.append(i)
            capacity -= weights[i]
    return chosen
