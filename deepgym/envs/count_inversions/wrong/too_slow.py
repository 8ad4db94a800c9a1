def count_inversions(numbers):
    total = 0
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            if numbers[i] > numbers[j]:
                total += 1
    return total
