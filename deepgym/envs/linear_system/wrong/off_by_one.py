from fractions import Fraction


def solve(matrix, right):
    rows = [[Fraction(value) for value in row] + [Fraction(b)] for row, b in zip(matrix, right, strict=False)]
    size = len(rows)
    for column in range(size - 1):  # the last column is never eliminated
        pivot = next((i for i in range(column, size) if rows[i][column]), None)
        if pivot is None:
            return []
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = rows[column][column]
        rows[column] = [value / scale for value in rows[column]]
        for i in range(size):
            if i != column:
                factor = rows[i][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=False)]
    return [str(row[-1]) for row in rows]
