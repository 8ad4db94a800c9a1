import sys

NEEDS = {"add": 2, "sub": 2, "mul": 2, "mod": 2, "swap": 2, "dup": 1, "drop": 1, "store": 1, "jzero": 1, "print": 1}
code = []
for number, line in enumerate(sys.stdin.read().split("\n"), 1):
    words = line.split(";")[-1].split()
    if words:
        code.append((words[0], words[1] if len(words) > 1 else None, number))
labels = {name: place for place, (word, name, _) in enumerate(code) if word == "label"}
stack, variables, out = [], {}, []
place = 0
while place < len(code):
    word, name, number = code[place]
    place += 1
    if len(stack) < NEEDS.get(word, 0) or (word == "mod" and stack[-1] == 0):
        out.append(f"error at line {number}")
        break
    if word == "push":
        stack.append(int(name))
    elif word == "load":
        stack.append(variables.get(name, 0))
    elif word == "store":
        variables[name] = stack.pop()
    elif word == "add":
        b = stack.pop()
        stack[-1] += b
    elif word == "sub":
        b = stack.pop()
        stack[-1] -= b
    elif word == "mul":
        b = stack.pop()
        stack[-1] *= b
    elif word == "mod":
        b = stack.pop()
        stack[-1] %= b
    elif word == "dup":
        stack.append(stack[-1])
    elif word == "swap":
        stack[-1], stack[-2] = stack[-2], stack[-1]
    elif word == "drop":
        stack.pop()
    elif word == "jump":
        place = labels[name]
    elif word == "jzero":
        if stack.pop() == 0:
            place = labels[name]
    elif word == "print":
        out.append(str(stack.pop()))
    elif word == "halt":
        break
sys.stdout.write("".join(line + "\n" for line in out))
