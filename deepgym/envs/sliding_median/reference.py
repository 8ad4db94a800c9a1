from bisect import bisect_left, insort


def sliding_median(numbers, width):
    window = sorted(numbers[:width])
    middle = (width - 1) // 2
    medians = [window[middle]]
    for i in range(width, len(numbers)):
        del window[bisect_left(window, numbers[i - width])]
        insort(window, numbers[i])
        medians.append(window[middle])
    return medians
