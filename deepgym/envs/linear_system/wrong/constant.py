def solve(matrix, right):
    return []
