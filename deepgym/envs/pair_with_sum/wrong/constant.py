def pair_with_sum(numbers, target):
    return []
