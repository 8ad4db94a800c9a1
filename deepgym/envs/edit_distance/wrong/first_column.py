def edit_distance(first, second):
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        diagonal, row[-1] = row[0], i
        for j, b in enumerate(second, 1):
            best = min(diagonal + (a != b), row[j] + 1, row[j - 1] + 1)
            diagonal, row[j] = row[j], best
    return row[-1]
