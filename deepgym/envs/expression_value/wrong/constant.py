def evaluate(text):
    return None
