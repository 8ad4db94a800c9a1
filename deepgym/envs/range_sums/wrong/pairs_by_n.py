import sys
from itertools import accumulate

data = list(map(int, sys.stdin.buffer.read().split()))
n, q = data[0], data[0]
before = [0, *accumulate(data[2 : 2 + n])]
ends = data[2 + n : 2 + n + 2 * q]
for first, last in zip(ends[::2], ends[1::2], strict=False):
    print(before[last] - before[first - 1])
