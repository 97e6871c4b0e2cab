"""The notes in numpy: every step, worked examples, the scaling lab, grading. No torch."""
