def sliding_median(numbers, width):
    medians = []
    for start in range(len(numbers) - width + 1):
        window = []
        for number in numbers[start : start + width]:
            place = len(window)
            while place > 0 and window[place - 1] > number:
                place -= 1
            window.insert(place, number)
        medians.append(window[(width - 1) // 2])
    return medians
