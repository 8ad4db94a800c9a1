from bisect import bisect_left, insort


def sliding_median(numbers, width):
    window = sorted(numbers[:width])
    medians = [window[width // 2]]  # the upper median
    for i in range(width, len(numbers)):
        del window[bisect_left(window, numbers[i - width])]
        insort(window, numbers[i])
        medians.append(window[width // 2])
    return medians
