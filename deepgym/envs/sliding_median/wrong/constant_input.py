def sliding_median(numbers, width):
    return numbers[: len(numbers) - width + 1]
