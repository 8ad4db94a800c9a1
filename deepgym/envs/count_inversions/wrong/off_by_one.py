import bisect


def count_inversions(numbers):
    seen, total = [], 0
    for number in numbers:
        total += len(seen) - bisect.bisect_left(seen, number)  # equal numbers count too
        bisect.insort(seen, number)
    return total
