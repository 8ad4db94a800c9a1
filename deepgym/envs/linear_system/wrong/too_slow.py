from fractions import Fraction


def determinant(matrix):
    if not matrix:
        return 1
    total = 0
    for j, value in enumerate(matrix[0]):
        minor = [row[:j] + row[j + 1 :] for row in matrix[1:]]
        total += (-1) ** j * value * determinant(minor)
    return total


def solve(matrix, right):
    whole = determinant(matrix)
    if whole == 0:
        return []
    columns = []
    for j in range(len(right)):
        replaced = [[*row[:j], b, *row[j + 1 :]] for row, b in zip(matrix, right, strict=False)]
        columns.append(str(Fraction(determinant(replaced), whole)))
    return columns
