"""When are the factors unique?"""
