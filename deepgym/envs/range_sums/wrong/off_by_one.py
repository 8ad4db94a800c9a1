import sys

data = list(map(int, sys.stdin.read().split()))
n, q = data[0], data[1]
numbers = data[2 : 2 + n]
before = [0]
for number in numbers:
    before.append(before[-1] + number)
ends = data[2 + n :]
for i in range(q):
    print(before[ends[2 * i + 1] - 1] - before[ends[2 * i] - 1])  # the last position is left out
