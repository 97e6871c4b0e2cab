# Everything a newcomer or CI runs. Each target sets up what it needs; a second run takes seconds.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# On machines that advertise AMX without having it, torch's bf16 matmul dies with SIGILL unless
# this is set before torch is imported (`regard doctor` explains).
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16

.PHONY: demo test check format docs clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(READY)  ## a real model reads an essay; what its heads did is left in demo.regard
	@if [ -f demo.regard ]; then $(BIN)/regard show demo.regard; \
	else $(MAKE) --no-print-directory demo.regard; fi
	@$(BIN)/regard show demo.regard L17H3 --row 671
	@echo
	@echo 'demo.regard is yours. Next, with the commands in $(BIN):'
	@echo '  regard show demo.regard L13H2      one head as a map'
	@echo '  regard report demo.regard          what the heads do, with evidence'
	@echo '  regard learn "The cat sat"         the lesson, number by number'

# a recording that was interrupted is deleted by make, so that the next demo makes it anew
demo.regard:
	@$(BIN)/regard record smollm2 --file examples/tides.txt -o $@

# one thread per worker: two workers that spin for each other on two cores take ten times as long
test: $(READY)  ## the whole test suite
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(ARGS)

check: $(READY)  ## format, lint, strict types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(READY)  ## rewrite the sources in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY)  ## regenerate docs/cli from --help
	@$(BIN)/python tools/cli_pages.py

clean:  ## remove everything that can be made again
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

$(READY): pyproject.toml tools/environment.py
	@$(PYTHON) tools/environment.py $(VENV)
