import sys

for line in sys.stdin:
    n, found, p = int(line), [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    if n > 1:
        found.append(n)
    print(*found)
