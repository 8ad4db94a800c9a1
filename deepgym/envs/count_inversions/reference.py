def count_inversions(numbers):
    def sort(part):
        if len(part) < 2:
            return part, 0
        middle = len(part) // 2
        left, inside_left = sort(part[:middle])
        right, inside_right = sort(part[middle:])
        merged, total, i = [], inside_left + inside_right, 0
        for number in right:
            while i < len(left) and left[i] <= number:
                merged.append(left[i])
                i += 1
            total += len(left) - i
            merged.append(number)
        return merged + left[i:], total

    return sort(list(numbers))[1]
