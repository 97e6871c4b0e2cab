"""Q, K, V → Attention: what it means (api, matrix), and the implementations that compute it."""
