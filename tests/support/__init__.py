"""What tests of several folders need: recordings with the truth, model families, sounds."""
