def solve(matrix, right):
    return ["0"] * len(right)
