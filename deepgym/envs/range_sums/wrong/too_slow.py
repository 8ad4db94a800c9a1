import sys

data = list(map(int, sys.stdin.read().split()))
n, q = data[0], data[1]
for i in range(q):
    first, last = data[2 + n + 2 * i], data[3 + n + 2 * i]
    total = 0
    for place in range(first, last + 1):
        total += data[1 + place]
    print(total)
