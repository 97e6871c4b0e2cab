# Everything a newcomer or CI runs. Each target sets up what it needs; a second run takes seconds.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
RUN    := $(VENV)/.run

.NOTPARALLEL:

# On machines that advertise AMX without having it, torch's bf16 matmul dies with SIGILL unless
# this is set before torch is imported (`regard doctor` explains).
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16

.PHONY: newest demo play lesson page test test-all test-fast fuzz test-families test-peers test-vllm test-gpu sanitize check ratchet format docs site tutorials pictures dist release-check clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: page  ## a real model reads an essay; what its heads did is left in demo.regard and demo.html
	@$(MAKE) --no-print-directory demo.regard
	@$(BIN)/regard show demo.regard L17H3 --row 671
	@echo
	@$(BIN)/regard report demo.regard -o demo.html --overwrite > /dev/null
	@$(BIN)/regard learn "The cat sat" --save lesson.html --overwrite > /dev/null
	@echo 'That was one row of one head: "hundred" looks at the words that followed it before.'
	@echo 'Next:'
	@echo '  $(BIN)/regard view demo.regard    all 270 heads in the browser, zoomed to the exact number'
	@echo '  $(BIN)/regard show demo.regard    all heads in the terminal'
	@echo '  make play                            type a prompt, switch heads off, watch the answer change'
	@echo 'Or open demo.html (12 heads, one file) and lesson.html (how attention works).'

play: page  ## a page with a model behind it: type, point, switch heads off
	@$(BIN)/regard play --text "The capital of France is"

lesson: page  ## the lesson as one file that needs no installation to open
	@$(BIN)/regard learn "The cat sat" --save lesson.html --overwrite

page: $(RUN)  ## build the page into the package
	@$(BIN)/python tools/build_page.py

# a recording that was interrupted is deleted by make, so that the next demo makes it anew
demo.regard:
	@$(BIN)/regard record smollm2 --file examples/tides.txt -o $@ > /dev/null

# one worker more than cores, because many tests wait for processes and browsers, and one thread per
# worker: workers that spin for each other take ten times as long; worksteal: each worker goes
# through folders of its own, so that what a file's tests share is made once, and none waits for
# another at the end; bytecode is kept whatever the environment says: each worker and hundreds of
# child processes would compile the package and the tests anew
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
PYTEST  := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) \
             --dist worksteal

test: $(READY) page  ## every promise, in a real browser too; the lanes are in tests/lanes.py
	@$(BIN)/python tools/chromium.py
	@$(PYTEST) --lane usual $(ARGS)

test-all: $(READY) page  ## the whole suite: every product of options, tools, examples, benchmarks
	@$(BIN)/python tools/chromium.py
	@$(PYTEST) $(ARGS)

test-fast: $(READY)  ## without browsers, real models and long sweeps: every folder of the package
	@$(PYTEST) --lane fast $(ARGS)

# on a GPU: make fuzz REGARD_TEST_DEVICE=cuda
SECONDS ?= 60
fuzz: $(READY)  ## problems drawn at random for SECONDS=60 seconds; ARGS="--area attention" for one area
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

# about fifteen minutes on two idle cores; `make test` has forty of them
test-families: $(VENV)/families/.ready  ## every model type of transformers against regard; writes docs/families.md, docs/check-families.md
	@OMP_NUM_THREADS=1 PYTHONPATH=tests $(VENV)/families/bin/python -m support.families --pages docs $(ARGS)

# inseq apart: its pins exclude TransformerLens 4; kvpress too, which excludes transformers 5.3
PEERS := peers inseq
test-peers: $(PEERS:%=$(VENV)/%/.ready) $(VENV)/kvpress/.ready  ## the recipes, timm, SentenceTransformer and kvpress with those packages
	@for peers in $(PEERS); do \
	  OMP_NUM_THREADS=1 $(VENV)/$$peers/bin/python -m pytest -rs tests/hear/test_peers.py \
	    tests/house/test_blocks.py::test_blocks_that_need_a_package_run_where_it_is $(ARGS) \
	    || exit 1; \
	done
	@OMP_NUM_THREADS=1 $(VENV)/kvpress/bin/python -m pytest -rs \
	  tests/huggingface/test_presses.py $(ARGS)

# an engine is loaded twice, which takes most of the five minutes; 3.5 GB of packages the first time
test-vllm: $(VENV)/vllm/.ready  ## the vLLM plug-in with vLLM itself on the CPU, offline and as a server
	@OMP_NUM_THREADS=1 $(VENV)/vllm/bin/python -m pytest -rs tests/vllm/served $(ARGS)

# compiling the kernels takes longest, so many processes share the GPU
test-gpu: $(READY)  ## every implementation over the shared matrix on a CUDA GPU, then what only a GPU shows
	@REGARD_TEST_DEVICE=cuda $(BIN)/python -m pytest -n auto --maxprocesses 14 \
	  tests/each tests/fuzz tests/engine/backends/gpu $(ARGS)

# once alone, so that kernels are compiled before the sanitizer makes everything slow; racecheck of
# the Triton kernels alone: the byte by which Triton starts the Hopper kernel's warp groups stands
# behind a named barrier, and racecheck takes it for a race
sanitize: $(READY)  ## the GPU kernels under compute-sanitizer: memory, then races
	@$(BIN)/python tools/sanitize_gpu.py
	@compute-sanitizer --tool memcheck --error-exitcode 1 $(BIN)/python tools/sanitize_gpu.py
	@compute-sanitizer --tool racecheck --error-exitcode 1 \
	  $(BIN)/python tools/sanitize_gpu.py --by triton

check: $(READY) page  ## format, lint, strict types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python tools/build_page.py check

ratchet: $(READY)  ## write down what has fallen in tests/house/RATCHET.md: sizes and words by room
	@PYTHONPATH=tests $(BIN)/python -m house.ratchet

format: $(READY)  ## rewrite the sources in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python tools/build_page.py format

docs: $(READY)  ## regenerate docs/cli and the tables of docs/scale.md; build the site into build/site
	@$(BIN)/python tools/cli_pages.py
	@$(BIN)/python -m bench.scale_page
	@$(BIN)/python tools/site.py

site: $(READY) page docs  ## the same with the gallery: the folder that a static host serves
	@$(BIN)/python tools/site.py --gallery

tutorials: $(READY)  ## run the notebooks of docs/tutorials and keep their outputs
	@$(BIN)/python tools/tutorials.py $(ARGS)

pictures: $(READY) page demo.regard  ## take the screenshots of README and docs anew
	@$(BIN)/python tools/chromium.py
	@$(BIN)/python tools/pictures.py
	@$(BIN)/python tools/pictures.py --overlay

dist: $(READY) page $(VENV)/.dist  ## wheels and sdist into dist/, checked by auditwheel and twine, installed and used
	@$(BIN)/python tools/dist.py

release-check: $(READY) page  ## whether this commit can be released: versions, archives, the installed wheel and its tests
	@$(BIN)/python tools/release_check.py

clean:  ## remove everything that can be made again
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist \
	  web/node_modules src/regard/viewer/static .nox

$(RUN): pyproject.toml tools/environment.py
	@$(PYTHON) tools/environment.py $(VENV) run

$(READY): pyproject.toml tools/environment.py tools/tested.txt
	@$(PYTHON) tools/environment.py $(VENV)

newest:  ## the newest versions of everything it is tested with; writes tools/tested.txt
	@$(PYTHON) tools/environment.py $(VENV) newest

$(VENV)/%/.ready: pyproject.toml tools/environment.py
	@$(PYTHON) tools/environment.py $(@D) $*

# zig among them, 400 MB
$(VENV)/.dist: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dist]'
	@touch $@
