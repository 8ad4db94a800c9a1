def pair_with_sum(numbers, target):
    seen = {}
    for j, number in enumerate(numbers):
        if target - number in seen:
            return [seen[target - number], j]
        seen.setdefault(number, j)
    return []
