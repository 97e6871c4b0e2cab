"""Q, K, V → Attention: `api` (checks, packing, paging) → `call` one call as values → `plan` which
backend serves it → `attention` the lazy matrix, `answers` the sweeps that a question needs,
`contributions` its second factor, `backend` the four sweeps a backend supplies, `ops`, `operator`
and `codec` the same as torch operators."""
