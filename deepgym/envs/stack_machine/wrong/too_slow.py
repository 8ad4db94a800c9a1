import sys

NEEDS = {"add": 2, "sub": 2, "mul": 2, "mod": 2, "swap": 2, "dup": 1, "drop": 1, "store": 1, "jzero": 1, "print": 1}
source = sys.stdin.read()
stack, variables = [], {}


def find(name):
    for place, line in enumerate(source.split("\n")):
        if line.split(";")[0].split() == ["label", name]:
            return place


place = 0
while place < len(source.split("\n")):  # the text is split again for every instruction
    words = source.split("\n")[place].split(";")[0].split()
    place += 1
    if not words:
        continue
    word = words[0]
    if len(stack) < NEEDS.get(word, 0) or (word == "mod" and stack[-1] == 0):
        print(f"error at line {place}")
        break
    if word == "push":
        stack.append(int(words[1]))
    elif word == "load":
        stack.append(variables.get(words[1], 0))
    elif word == "store":
        variables[words[1]] = stack.pop()
    elif word in ("add", "sub", "mul", "mod"):
        b, a = stack.pop(), stack.pop()
        stack.append(a + b if word == "add" else a - b if word == "sub" else a * b if word == "mul" else a % b)
    elif word == "dup":
        stack.append(stack[-1])
    elif word == "swap":
        stack[-1], stack[-2] = stack[-2], stack[-1]
    elif word == "drop":
        stack.pop()
    elif word == "jump":
        place = find(words[1])
    elif word == "jzero":
        if stack.pop() == 0:
            place = find(words[1])
    elif word == "print":
        print(stack.pop())
    elif word == "halt":
        break
