def run_length(text):
    return []
