from fractions import Fraction


def solve(matrix, right):
    size = len(right)
    rows = [[float(value) for value in row] + [float(b)] for row, b in zip(matrix, right, strict=False)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        if abs(rows[pivot][column]) < 1e-9:
            return []
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for i in range(size):
            if i != column:
                factor = rows[i][column] / rows[column][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=False)]
    return [str(Fraction(rows[i][-1] / rows[i][i]).limit_denominator(1000)) for i in range(size)]
