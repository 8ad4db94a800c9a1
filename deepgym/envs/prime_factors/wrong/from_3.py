import math
import sys

SMALL = [p for p in range(3, 2000) if all(p % q for q in range(2, math.isqrt(p) + 1))]


def is_prime(n):
    if n < 2:
        return False
    for p in SMALL[:12]:
        if n % p == 0:
            return n == p
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in SMALL[:12]:
        x = pow(a, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def divisor(n):
    """A proper divisor of a composite n (Pollard's rho, Brent's cycle finding, gcds in batches)."""
    root = math.isqrt(n)
    if root * root == n:
        return root
    for c in range(1, 50):
        y, g, r, q = 2, 1, 1, 1
        while g == 1:
            x = y
            for _ in range(r):
                y = (y * y + c) % n
            k = 0
            while k < r and g == 1:
                saved = y
                for _ in range(min(128, r - k)):
                    y = (y * y + c) % n
                    q = q * abs(x - y) % n
                g = math.gcd(q, n)
                k += 128
            r *= 2
        if g == n:
            g = 1
            while g == 1:
                saved = (saved * saved + c) % n
                g = math.gcd(abs(x - saved), n)
        if g != n:
            return g


def factors(n):
    found = []
    for p in SMALL:
        while n % p == 0:
            found.append(p)
            n //= p
    parts = [n] if n > 1 else []
    while parts:
        part = parts.pop()
        if is_prime(part):
            found.append(part)
        else:
            d = divisor(part)
            parts += [d, part // d]
    return sorted(found)


for line in sys.stdin:
    if line.strip():
        print(*factors(int(line)))
