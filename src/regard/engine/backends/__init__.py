"""Who computes: each brings the sweeps of `engine/backend.py`; only `engine/plan.py` knows them."""
