"""Hearing the attention of a running model, whoever computes it."""
