# Pipelines of codesign. `make help` prints itself from the ## comments.
#
#   make report                                      the default portfolio, from nothing
#   make report PORTFOLIO=mine.yaml SYSTEM=hgx-h200 OUT=out/mine
#   make report SYSTEM=specs/our-box.yaml            a system of your own as the baseline
#
# Everything is incremental: what is up to date is not made again.

SHELL     := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
# No .DELETE_ON_ERROR: codesign writes a file wholly or not at all, and a step that fails must not
# take the last good report with it, nor the one that says which check failed.
.SUFFIXES:

# Steps that do not wait for each other run side by side, one core each.
JOBS      ?= $(shell nproc)
MAKEFLAGS += --jobs=$(JOBS) --output-sync=target
export OPENBLAS_NUM_THREADS ?= 1

PYTHON    ?= python3
VENV      ?= .venv
BUILD     ?= build
PORTFOLIO ?= default
OUT       ?= $(BUILD)/report
# More options for a single step, such as FIT_FLAGS="--exclude h200-sxm".
CHARACTERIZE_FLAGS ?=
FIT_FLAGS          ?=
BACKTEST_FLAGS     ?= --quick
RECOMMEND_FLAGS    ?=

ifneq ($(words $(PORTFOLIO) $(OUT) $(BUILD)),3)
$(error PORTFOLIO, OUT and BUILD are one path each, without spaces: make cannot tell a space from the end of a name; call `codesign recommend` instead)
endif
PORTFOLIO_FILE := $(firstword $(filter %.yaml %.yml,$(wildcard $(PORTFOLIO))) $(wildcard reports/portfolios/$(PORTFOLIO).yaml))
NEEDS_PORTFOLIO := $(filter characterize recommend report,$(MAKECMDGOALS))
ifeq ($(PORTFOLIO_FILE),)
ifneq ($(NEEDS_PORTFOLIO),)
$(error PORTFOLIO=$(PORTFOLIO): no such .yaml file, and none of that name in reports/portfolios)
endif
endif
# Values of the keys $(1) in the YAML file $(2), in block or flow style.
values = $(if $(2),$(shell sed -nE 's/^ *(- +)?(\{(.*, *| *))?($(1)): *["'"'"']?([^]["'"'"' ,}\#]+).*/\5/p' $(2)))
# $(1) as the file $(2) means it: a .yaml beside that file, else as it stands.
beside = $(if $(filter %.yaml %.yml,$(1)),$(firstword $(wildcard $(if $(filter /%,$(1)),,$(dir $(2)))$(1)) $(1)),$(1))
# The pipeline needs three things of a portfolio: recipes, files of the user's own, baseline.
RECIPES := $(foreach r,$(call values,recipe,$(PORTFOLIO_FILE)),$(call beside,$(r),$(PORTFOLIO_FILE)))
INPUTS  := $(foreach f,$(call values,characterization|trace,$(PORTFOLIO_FILE)),$(wildcard $(if $(filter /%,$(f)),,$(dir $(PORTFOLIO_FILE)))$(f)))
SYSTEM  ?= $(call beside,$(call values,baseline,$(PORTFOLIO_FILE)),$(PORTFOLIO_FILE))
# A system of the user's own is a file, and so may its GPU be.
SYSTEM_FILE := $(filter %.yaml %.yml,$(SYSTEM))
ifneq ($(and $(SYSTEM_FILE),$(NEEDS_PORTFOLIO)),)
ifeq ($(wildcard $(SYSTEM_FILE)),)
$(error SYSTEM=$(SYSTEM): no such file)
endif
endif
SYSTEM_FILES := $(SYSTEM_FILE) $(if $(wildcard $(SYSTEM_FILE)),$(wildcard $(filter %.yaml %.yml,$(call beside,$(call values,gpu,$(SYSTEM_FILE)),$(SYSTEM_FILE)))))

# Names hold dots (llama-3.1-8b), so only a YAML ending is cut off.
stem = $(patsubst %.yml,%,$(patsubst %.yaml,%,$(1)))

CODESIGN := $(VENV)/bin/codesign
CHARS    := $(BUILD)/characterizations/$(subst /,_,$(patsubst ./%,%,$(call stem,$(SYSTEM))))
MODEL    := $(BUILD)/model.json
BACKTEST := $(BUILD)/backtest.json
PARQUET  := $(patsubst %,$(CHARS)/%.parquet,$(notdir $(call stem,$(RECIPES))))

# What a step is run with, in a file that changes only when that does: the same targets with
# other options, or another portfolio in the same OUT, are made anew.
remember = $(if $(subst |$(file <$(1))|,,|with $(2)|),$(shell mkdir -p $(dir $(1)))$(file >$(1),with $(2)))$(1)
ifneq ($(filter characterize fit backtest recommend report,$(MAKECMDGOALS)),)
CHARACTERIZE_WITH := $(call remember,$(CHARS)/.options,$(CHARACTERIZE_FLAGS))
FIT_WITH          := $(call remember,$(BUILD)/.fit.options,$(FIT_FLAGS))
BACKTEST_WITH     := $(call remember,$(BUILD)/.backtest.options,$(BACKTEST_FLAGS))
RECOMMEND_WITH    := $(call remember,$(OUT)/.options,$(PORTFOLIO_FILE) $(SYSTEM) $(RECOMMEND_FLAGS))
endif

# After a step whose check failed (--fail-on): what it wrote stays, and is made anew next time.
or_again = || { code=$$?; touch $(1); exit $$code; }

py = $(shell find $(1) -name '*.py' -o -name '*.yaml')
HARDWARE_FILES  := $(call py,hwspecs codesign/hardware codesign/_common)
WORKLOAD_FILES  := $(HARDWARE_FILES) $(call py,codesign/workload codesign/sources)
MODEL_FILES     := $(WORKLOAD_FILES) $(call py,codesign/sensitivity)
RECOMMEND_FILES := $(call py,codesign/projection codesign/recommend codesign/report) $(shell find reports/templates -type f)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@echo "Targets (variables: PORTFOLIO=$(PORTFOLIO) SYSTEM=$(SYSTEM) OUT=$(OUT) BUILD=$(BUILD)"
	@echo "CHARACTERIZE_FLAGS, FIT_FLAGS, BACKTEST_FLAGS, RECOMMEND_FLAGS: more options of a step):"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: report
report: $(OUT)/index.html ## The ranked report: OUT/index.html, report.md, recommendations.json

.PHONY: recommend
recommend: report ## The same as report

.PHONY: characterize
characterize: $(PARQUET) ## Characterize every workload of PORTFOLIO on SYSTEM

.PHONY: fit
fit: $(MODEL) ## Fit the sensitivity model to the measured kernels

.PHONY: backtest
backtest: $(BACKTEST) ## Score projections on GPUs that the model has not seen

.PHONY: install
install: $(VENV)/.installed ## Create the virtual environment and install codesign

.PHONY: test
test: $(VENV)/.installed-dev ## Run the tests
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_FLAGS)

.PHONY: lint
lint: $(VENV)/.installed-dev ## Check style, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

.PHONY: format
format: $(VENV)/.installed-dev ## Format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: wheel
wheel: $(VENV)/.installed-dev ## Build the wheel into dist/
	$(VENV)/bin/python -m build --wheel

.PHONY: clean
clean: ## Remove what the pipelines made (the environment stays)
	rm -rf $(BUILD) dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "codesign needs Python 3.11 or newer: set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "no virtual environment could be made; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[perfdb]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[perfdb,dev]'
	@touch $@ $(VENV)/.installed

# A recipe is a name of reports/workloads or a path of the user's own.
.SECONDEXPANSION:
recipe_arg = $(firstword $(filter %/$(1).yaml %/$(1).yml,$(RECIPES)) $(1))
recipe_dep = $(wildcard $(filter %/$(1).yaml %/$(1).yml,$(RECIPES)) reports/workloads/$(1).yaml)

$(CHARS)/%.parquet: $$(call recipe_dep,$$*) $(SYSTEM_FILES) $(WORKLOAD_FILES) $(CHARACTERIZE_WITH) $(VENV)/.installed
	$(CODESIGN) characterize --recipe $(call recipe_arg,$*) --system $(SYSTEM) --force -o $@ $(CHARACTERIZE_FLAGS)

$(MODEL): $(MODEL_FILES) $(FIT_WITH) $(VENV)/.installed
	$(CODESIGN) fit --force -o $@ $(FIT_FLAGS)

# Whole workloads are scored too, so it depends on every shipped recipe; the models that it
# scores do not, and are kept.
$(BACKTEST): $(MODEL_FILES) $(call py,codesign/projection) $(wildcard reports/workloads/*.yaml) $(BACKTEST_WITH) $(VENV)/.installed
	$(CODESIGN) backtest --force -o $@ --models $(BUILD)/backtest-models $(BACKTEST_FLAGS) \
	  $(call or_again,$(BACKTEST_WITH))

$(OUT)/index.html $(OUT)/report.md $(OUT)/recommendations.json &: \
  $(PORTFOLIO_FILE) $(SYSTEM_FILES) $(INPUTS) $(PARQUET) $(MODEL) $(BACKTEST) $(RECOMMEND_FILES) $(RECOMMEND_WITH)
	$(CODESIGN) recommend $(PORTFOLIO_FILE) --system $(SYSTEM) --model $(MODEL) --backtest $(BACKTEST) \
	  --characterizations $(CHARS) --force \
	  -o $(OUT)/recommendations.json -o $(OUT)/report.md -o $(OUT)/index.html $(RECOMMEND_FLAGS) \
	  $(call or_again,$(RECOMMEND_WITH))
