import sys

for _ in sys.stdin:
    print("ok")
