import sys

print(" ".join(sys.stdin.read().split()[1:]))
