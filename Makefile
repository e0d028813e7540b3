# The two commands for people: `make demo` and `make test`. Each installs missing Debian packages when
# it may (otherwise prints the line to run and stops), configures, builds and runs. All else is CMake.
PREFIX = /usr/local

all:
	@scripts/deps.sh build
	@scripts/build.sh release

# Translates sentences that the bundled model has not seen, and shows what each word looked at.
demo:
	@scripts/deps.sh build
	@scripts/build.sh release
	@scripts/demo.sh

# Attention as a memory for words: finds the word that a misspelling means.
words:
	@scripts/deps.sh build
	@scripts/deps.sh words || echo "Without the Debian lists: the small one of examples/words."
	@scripts/build.sh release
	@build/examples/word_memory

# The fast tier of the tests; ends with `N passed, N failed, N skipped`.
test:
	@scripts/deps.sh build test
	@scripts/build.sh release -DATTN_TESTS=ON
	@scripts/test.sh build

# Everything CI runs; `scripts/check.sh NAME` for one stage.
check:
	@scripts/check.sh

install: all
	@cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-*

.PHONY: all demo words test check install clean
