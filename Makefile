# Every target but `help`, `lock` and `clean` first installs what is missing (setup/).
# PYTHON=/path/to/python3.12 chooses the Python of the environment.
BIN := .venv/bin
UV := uv==0.13.8
RELEASE := bookworm
AS := root
PROVIDER := libvirt
export PYTHON
# Many containers set it; every start of a program would then compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE
# By contents and not by paths or times: a fresh clone is checked in seconds, too.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/labs/mypy

.DEFAULT_GOAL := help
.PHONY: help ready lab student test vegeta box test-vm test-browser test-bare test-sandbox test-course
.PHONY: fuzz-capture fuzz-explain fuzz-runs explain-truth
.PHONY: benchmark benchmark-batch benchmark-capture benchmark-netfilter model figure metadata
.PHONY: same answers wheel wheels kernel-reproducible lock clean

help:                   ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

ready:                  ## system packages and the Python environment
	@setup/system.sh $(FOR)
	@setup/python.sh
	@$(BIN)/python -m labs.read.native.build

lab: ready              ## the first notebook as a report: recorded runs first, then live
	@setup/lab.sh

test: FOR = test
# For a classroom: make student TESTBED=recorded KERNEL=6.12 LINK=100x40
student: ready          ## the students' copies of the notebooks, in student/; keeps edited ones
	@$(BIN)/labs student notebooks/*.ipynb --into student \
		$(if $(TESTBED),--set TESTBED=$(TESTBED)) $(if $(KERNEL),--set KERNEL=$(KERNEL)) \
		$(if $(LINK),--link $(LINK))

# With CI=true a kernel that cannot be built and a tier that cannot run are errors, not skips
# (tests/conftest.py says which tiers); LABS_REQUIRE=virtual,namespaces names other tiers.
test: ready             ## style, types, import rules, and all tests that can run on this machine
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@setup/kernels.sh
	@setup/tests.sh

vegeta: ready           ## vegeta, the open loop of the lab stack: compiled in about a minute
	@setup/vegeta.sh

box: FOR = vm
box: ready              ## the box of the lab's machines (RELEASE=trixie, PROVIDER=virtualbox)
	@$(BIN)/python vagrant/box.py --release $(RELEASE) --provider $(PROVIDER)

test-vm: FOR = vm
test-vm: ready          ## the tests on two virtual machines, started for them and destroyed afterwards
	@setup/test-vm.sh

test-browser: FOR = test
test-browser: ready     ## published pages and JupyterLab in a real browser
	LABS_REQUIRE=browser $(BIN)/pytest tests/browser

test-course: FOR = course
test-course: ready      ## nbgrader and JupyterHub themselves, with two users; the latter needs root
	@setup/test-course.sh

test-bare:              ## lab and test on a bare Debian (RELEASE=trixie, AS=user); needs root
	@setup/system.sh bare
	@setup/test-bare.sh $(RELEASE) $(AS)

test-sandbox:           ## the recipes of docs/where.md in a sandbox like a container's; needs root
	@setup/system.sh bare
	@setup/test-sandbox.sh $(RECIPES)

benchmark: ready        ## the speed of runs, as ratios where possible
	$(BIN)/python benchmarks/virtual.py

benchmark-batch: ready  ## what a batch costs beyond its runs, and what a second worker gains
	$(BIN)/python -m benchmarks.batch

benchmark-capture: FOR = benchmark
benchmark-capture: ready  ## the speed of the capture reader, compared with tshark and others
	$(BIN)/python benchmarks/capture.py

benchmark-netfilter: ready  ## what options of the kernel cost in instructions per request; needs qemu-system-x86 and an hour
	$(BIN)/python benchmarks/netfilter/measure.py

explain-truth: FOR = test
explain-truth: ready    ## how often `labs explain` is right, on captures of known cause
	$(BIN)/python benchmarks/explain/truth.py --page reports/explain-development.html
	$(BIN)/python benchmarks/explain/truth.py --hidden --page reports/explain-hidden.html

fuzz-capture: ready     ## read a million mutated captures; crashes are kept as fixtures
	$(BIN)/python -m tests.fuzz_capture

fuzz-explain: ready     ## explain a million mutated captures and tunnels, in about an hour
	$(BIN)/python -m tests.fuzz_explain

fuzz-runs: ready        ## read 200,000 mutated runs, studies, notebooks and raw files; crashes kept
	$(BIN)/python -m tests.fuzz_runs

model: ready            ## the model of a bulk transfer against the kernel, at every stored point; fails if its goal is missed
	@setup/kernels.sh
	$(BIN)/python benchmarks/model.py

figure: ready           ## draw the figures in docs/ again from recorded runs (needs chromium)
	$(BIN)/python docs/draw.py

answers: FOR = test
answers: ready          ## compute the results of all recorded runs (data/answers.jsonl.xz)
	@$(BIN)/python -m tests.recorded_answers

wheel: FOR = test
wheel: ready            ## the package with the recorded runs, as dist/*.whl; KIT=1 adds a kit as a second wheel
	@$(BIN)/python -m tests.recorded_answers --stale
	@$(BIN)/python -m hatchling build -t wheel
	@$(if $(KIT),$(BIN)/labs kit make --out setup/kit/kit.tar.xz)
	@$(if $(KIT),cd setup/kit && ../../$(BIN)/python -m hatchling build -t wheel -d ../../dist)

wheels: FOR = test
wheels: ready           ## the same for Linux, macOS and Windows, compiled here with zig
	@$(BIN)/python -m tests.recorded_answers --stale
	@setup/wheels.sh

metadata: ready         ## codemeta.json and .zenodo.json, written again from CITATION.cff
	$(BIN)/python docs/metadata.py

kernel-reproducible: ready  ## build the kernel twice, in two folders, and compare
	$(BIN)/labs kernel reproduce

same: FOR = test
same: ready             ## what a user sees, compared with the commit BASE (default: HEAD~1)
	$(BIN)/python -m tests.same $(or $(BASE),HEAD~1) $(KINDS)

lock:                   ## resolve requirements.lock again from pyproject.toml
	@setup/lock.sh $(UV)

clean:                  ## remove generated files; runs/ and built kernels are kept
	rm -rf .venv .venv-course reports build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
