def evaluate(text):
    return 0
